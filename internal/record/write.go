package record

import (
	"encoding/binary"
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
	decoded []key // of the objects whose contents are kept, the oldest first
	program string
	unread  map[string]string
	listing bool  // the objects that exist are being written
	err     error // the first that the output returned
	lines   int
}

// known is what was written of an object.
type known struct {
	object  client.Object
	content map[string]any // of the object; nil if it is not kept
	renewed time.Time
}

// mostDecoded bounds the contents that are kept: an object that changes does so several times within seconds.
const mostDecoded = 1000

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

// Object writes a version of an object, if it differs from the one before. The object must not be changed.
func (w *Writer) Object(seen inventory.Seen) {
	content, err := inventory.Content(seen.Object)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		err = w.object(seen, content)
	}
	if err != nil && w.err == nil {
		w.err = err
	}
}

func (w *Writer) object(seen inventory.Seen, content map[string]any) error {
	line := lineOf(seen.Object, content, w.clock())
	before := w.known[line.key()]
	switch {
	case before == nil && seen.Deleted:
		return nil
	case before == nil && seen.Initial:
		line.Op, line.Object = Have, content
	case before == nil:
		line.Op, line.Object, line.By = Add, content, changed(nil, managersOf(seen.Object))
	default:
		differs, err := line.compare(before, seen, content)
		if err != nil || !differs {
			return err
		}
	}
	w.write(line)
	if seen.Deleted {
		delete(w.known, line.key())
		return nil
	}
	w.know(line.key(), &known{object: seen.Object, content: content, renewed: line.Time})
	return nil
}

// compare sets what a version changes. It reports whether the version is worth a line.
func (l *Line) compare(before *known, seen inventory.Seen, content map[string]any) (bool, error) {
	was, err := before.contentOf()
	if err != nil {
		return false, err
	}
	l.Op = Change
	if seen.Deleted {
		l.Op = Delete
	}
	l.Patch, l.Changed = diff(was, content)
	l.Changed = slices.DeleteFunc(l.Changed, isBookkeeping)
	l.By = changed(managersOf(before.object), managersOf(seen.Object))
	isPaused := isRenewal(*l, seen.Object) && l.Time.Sub(before.renewed) < leasePause
	return (len(l.Patch) > 0 || seen.Deleted) && !isPaused, nil
}

// lineOf returns the line about an object without an operation.
func lineOf(o client.Object, content map[string]any, now time.Time) Line {
	kind, _ := content["kind"].(string)
	return Line{
		Time: now, Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()),
		Version: o.GetResourceVersion(),
	}
}

// contentOf returns the content of an object as it was written.
func (k *known) contentOf() (map[string]any, error) {
	if k.content != nil {
		return k.content, nil
	}
	return inventory.Content(k.object)
}

// know keeps what was written of an object. It keeps the content of those that were written last; the objects
// themselves are those of the informers.
func (w *Writer) know(k key, written *known) {
	if before := w.known[k]; before == nil || before.content == nil {
		w.decoded = append(w.decoded, k)
	}
	w.known[k] = written
	for len(w.decoded) > mostDecoded {
		if oldest := w.known[w.decoded[0]]; oldest != nil {
			oldest.content = nil
		}
		w.decoded = w.decoded[1:]
	}
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
	entries := o.GetManagedFields()
	all := make(map[string]uint64, len(entries))
	for _, entry := range entries {
		h := fnv.New64a()
		if entry.Time != nil {
			var seconds [8]byte
			binary.LittleEndian.PutUint64(seconds[:], uint64(entry.Time.Unix())) //nolint:gosec // bits are enough
			_, _ = h.Write(seconds[:])                                           // never fails
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

// write writes a line. A new file begins with all objects that are known.
func (w *Writer) write(line Line) {
	if w.err == nil && !w.listing && w.out.IsFull(line.Time) {
		if w.err = w.out.Rotate(line.Time); w.err == nil {
			w.everything(line.Time)
		}
	}
	w.writeOne(line)
}

// everything writes the objects that are known, as a recorder does that begins.
func (w *Writer) everything(now time.Time) {
	w.writeOne(Line{Time: now, Op: Begin, Schema: Schema, Program: w.program})
	for _, k := range w.known {
		content, err := k.contentOf()
		if err != nil {
			w.err = err
			return
		}
		have := lineOf(k.object, content, now)
		have.Op, have.Object = Have, content
		w.writeOne(have)
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

func (w *Writer) writeOne(line Line) {
	if w.err == nil {
		w.err = writeLine(w.out, line)
		w.lines++
	}
}

func writeLine(to io.Writer, line Line) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = to.Write(append(text, '\n'))
	}
	return err
}
