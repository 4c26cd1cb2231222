package record

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// leasePause is how often the renewal of a Lease is written at most.
const leasePause = 5 * time.Second

// Output takes the encoded lines of a record: each Write is one line, with its newline.
type Output interface {
	io.WriteCloser
	// IsFull reports whether the next line should begin a new file. It is not asked before Listed.
	IsFull(now time.Time) bool
	// Rotate begins a new file.
	Rotate(now time.Time) error
	// Listed is called when all objects have been written with which a file begins. It returns an
	// error if they leave no room for their changes.
	Listed() error
	// Flush writes what is buffered to the file, so that a crash of the process loses no line that
	// was flushed.
	Flush() error
}

// Writer turns versions of objects into lines. It is safe for several goroutines.
type Writer struct {
	mu      sync.Mutex
	out     Output
	clock   func() time.Time
	known   map[key]*known
	program string
	unread  map[string]string
	listing bool  // the objects that exist are being written
	err     error // the first that the output returned
	lines   int
}

// known is what was written of an object.
type known struct {
	content  []byte
	line     Line // without its content
	managers map[string]uint64
	renewed  time.Time
}

// NewWriter returns a writer of the record of a program.
func NewWriter(out Output, program string, clock func() time.Time) *Writer {
	return &Writer{out: out, clock: clock, known: map[key]*known{}, program: program}
}

// Begin writes the line with which a recorder begins.
func (w *Writer) Begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listing = true
	w.write(Line{Time: w.clock(), Op: Begin, Schema: Schema, Program: w.program})
	return w.err
}

// Listed writes that all objects that exist have been written since the begin, but those of the
// kinds that are unread.
func (w *Writer) Listed(unread map[explain.Kind]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unread = map[string]string{}
	for kind, cause := range unread {
		w.unread[string(kind)] = cause
	}
	w.listed(w.clock())
	w.listing = false
	return w.err
}

// Flush writes what is buffered to the file. It returns the first error of the output, after which
// nothing is written.
func (w *Writer) Flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// Close ends the record.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.out.Close()
	if w.err == nil {
		w.err = errClosed
		return err
	}
	return w.err
}

var errClosed = errors.New("the record has been closed")

// Lines returns how many lines were written.
func (w *Writer) Lines() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines
}

// Object writes a version of an object, if it differs from the one before.
func (w *Writer) Object(seen inventory.Seen) {
	content, err := inventory.Content(seen.Object)
	var text []byte
	if err == nil {
		text, err = json.Marshal(content)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.object(seen, content, text)
	}
	if err != nil && w.err == nil {
		w.err = err
	}
}

func (w *Writer) object(seen inventory.Seen, content map[string]any, text []byte) {
	kind, _ := content["kind"].(string)
	o := seen.Object
	line := Line{
		Time: w.clock(), Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		Version: o.GetResourceVersion(),
	}
	k := line.key()
	before := w.known[k]
	managers := managersOf(o)
	switch {
	case before == nil && seen.Deleted:
		return
	case before == nil:
		line.Op = Add
		if seen.Initial {
			line.Op = Have
		} else {
			line.By = changed(nil, managers)
		}
	default:
		was, err := decode(before.content)
		if err != nil {
			w.err = err
			return
		}
		line.Op = Change
		if seen.Deleted {
			line.Op = Delete
		}
		line.Patch, line.Changed = diff(was, content)
		line.Changed = slices.DeleteFunc(line.Changed, isBookkeeping)
		line.By = changed(before.managers, managers)
		if len(line.Patch) == 0 && !seen.Deleted || isRenewal(line, o) && line.Time.Sub(before.renewed) < leasePause {
			return
		}
	}
	if before == nil {
		w.write(line, text...)
	} else {
		w.write(line)
	}
	if seen.Deleted {
		delete(w.known, k)
		return
	}
	line.Patch, line.Changed = nil, nil
	w.known[k] = &known{content: text, line: line, managers: managers, renewed: line.Time}
}

// isBookkeeping reports whether a path is one that every write changes.
func isBookkeeping(path string) bool {
	return path == "metadata.resourceVersion" || path == "metadata.managedFields" || path == "metadata.generation"
}

// isRenewal reports whether a change of a Lease only renews it.
func isRenewal(line Line, o client.Object) bool {
	_, ok := o.(*coordinationv1.Lease)
	return ok && line.Op == Change && len(line.Changed) == 1 && line.Changed[0] == "spec.renewTime"
}

// managersOf returns a hash of what each manager has written.
func managersOf(o client.Object) map[string]uint64 {
	all := map[string]uint64{}
	for _, entry := range o.GetManagedFields() {
		h := fnv.New64a()
		if entry.Time != nil {
			_, _ = h.Write([]byte(entry.Time.UTC().String())) // never fails
		}
		if entry.FieldsV1 != nil {
			_, _ = h.Write([]byte(entry.FieldsV1.GetRawString()))
		}
		name := entry.Manager
		if entry.Subresource != "" {
			name += " (" + entry.Subresource + ")"
		}
		all[name] = all[name]*31 + h.Sum64()
	}
	return all
}

// changed returns the managers that have written since, without their subresources, sorted.
func changed(before, now map[string]uint64) (all []string) {
	for name, hash := range now {
		if before[name] != hash {
			manager, _, _ := strings.Cut(name, " (")
			if !slices.Contains(all, manager) {
				all = append(all, manager)
			}
		}
	}
	slices.Sort(all)
	return all
}

// Call writes a call that a role has made.
func (w *Writer) Call(c life.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(Line{Time: w.clock(), Op: Called, Call: &c})
}

// Note writes what the recorder could not record.
func (w *Writer) Note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(Line{Time: w.clock(), Op: Noted, Note: text})
}

// write writes a line with an encoded object, if it has one. A new file begins with all objects that are
// known.
func (w *Writer) write(line Line, object ...byte) {
	if w.err == nil && !w.listing && w.out.IsFull(line.Time) {
		if w.err = w.out.Rotate(line.Time); w.err == nil {
			w.everything(line.Time)
		}
	}
	w.writeOne(line, object...)
}

// everything writes the objects that are known, as a recorder does that begins.
func (w *Writer) everything(now time.Time) {
	w.writeOne(Line{Time: now, Op: Begin, Schema: Schema, Program: w.program})
	for _, k := range w.known {
		have := k.line
		have.Time, have.Op, have.By = now, Have, nil
		w.writeOne(have, k.content...)
	}
	w.listed(now)
}

// listed writes that all objects have been written with which the file begins.
func (w *Writer) listed(now time.Time) {
	w.writeOne(Line{Time: now, Op: Listed, Unread: w.unread})
	if w.err == nil {
		w.err = w.out.Listed()
	}
}

func (w *Writer) writeOne(line Line, object ...byte) {
	if w.err != nil {
		return
	}
	if len(object) == 0 {
		w.err = writeLine(w.out, line)
	} else {
		w.err = writeLine(w.out, struct { // the object is encoded already
			Line

			Object json.RawMessage `json:"object"`
		}{line, object})
	}
	w.lines++
}

func writeLine(to io.Writer, line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = to.Write(append(text, '\n'))
	}
	return err
}
