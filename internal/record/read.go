package record

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

const (
	// mostOfLine bounds a line. An object of the API server has at most 1.5 MiB.
	mostOfLine = 16 << 20
	// mostOfFile bounds the text of a file, which is kept in memory.
	mostOfFile = 512 << 20
	// mostOfContents bounds the contents of all versions of objects, which small patches make of a
	// large object.
	mostOfContents = 4 << 30
	// smallRecord is up to how many objects a record is small: then all of them are looked at for each
	// explanation of a life.
	smallRecord = 1000
)

// Record is what records have: each version of each object.
type Record struct {
	// Notes say what the recorder could not record, and which lines could not be used.
	Notes []string

	index  *life.Index
	lock   sync.Locker // of the index
	calls  []life.Call
	unread map[explain.Kind]string
	begin  time.Time // from when on every change is known: the end of the first list
	end    time.Time

	changes []life.Change     // while the record is read; then the index has them
	objects map[key]*timeline // while the record is read
	listing map[key]bool      // objects since the last begin; nil outside of a list

	small        int   // so many objects are looked at for each explanation
	textLeft     int64 // of a file, in bytes
	contentsLeft int64 // of all versions, in bytes
}

func newRecord() *Record {
	return &Record{
		lock: &sync.Mutex{}, objects: map[key]*timeline{}, unread: map[explain.Kind]string{},
		small: smallRecord, textLeft: mostOfFile, contentsLeft: mostOfContents,
	}
}

// timeline is what was read about the objects with one name.
type timeline struct {
	content map[string]any // the last; nil if it is gone
	seen    bool           // there was a version
}

// Is reports whether a text is the begin of a record, compressed or not.
func Is(text []byte) bool {
	head := text[:min(len(text), 4<<10)]
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		gz, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return false
		}
		head = make([]byte, 4<<10)
		n, _ := io.ReadFull(gz, head) // a short or torn record is read as far as it goes
		head = head[:n]
	}
	line, _, _ := bytes.Cut(head, []byte("\n"))
	return bytes.HasPrefix(line, []byte("{")) && bytes.Contains(line, []byte(`"schema":"purser.record/`))
}

// Load reads records, in the order of their first lines. A record that ends within a line is read
// up to it.
func Load(texts map[string][]byte) (*Record, error) {
	r := newRecord()
	return r, r.load(texts)
}

func (r *Record) load(texts map[string][]byte) error {
	type part struct {
		name  string
		lines []Line
	}
	var parts []part
	for name, text := range texts {
		lines, err := r.lines(name, text)
		if err != nil {
			return err
		}
		if len(lines) > 0 {
			parts = append(parts, part{name, lines})
		}
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(a.lines[0].Time.Compare(b.lines[0].Time), cmp.Compare(a.name, b.name))
	})
	for _, p := range parts {
		for n, line := range p.lines {
			err := r.add(line)
			if errors.Is(err, errTooLarge) {
				return fmt.Errorf("%s: line %d: %w", p.name, n+1, err)
			}
			if err != nil {
				r.note("%s: line %d: %v", p.name, n+1, err)
			}
		}
	}
	r.index = life.NewIndex(ordered(r.changes))
	r.changes, r.objects, r.listing = nil, nil, nil
	return nil
}

// errTooLarge says that a record would take too much memory.
var errTooLarge = fmt.Errorf(
	"the versions of the objects take more than %d GiB; read fewer files, or record with a smaller --max-size",
	mostOfContents>>30,
)

// spend counts a content that is kept.
func (r *Record) spend(content map[string]any) error {
	r.contentsLeft -= sizeOf(content)
	if r.contentsLeft < 0 {
		return errTooLarge
	}
	return nil
}

// sizeOf is about the number of bytes that a value takes as JSON.
func sizeOf(value any) (size int64) {
	const ofScalar = 8
	switch v := value.(type) {
	case map[string]any:
		for field, inner := range v {
			size += int64(len(field)) + ofScalar + sizeOf(inner)
		}
	case []any:
		for _, inner := range v {
			size += sizeOf(inner)
		}
	case string:
		return int64(len(v)) + ofScalar
	}
	return size + ofScalar
}

// Lines decodes one record without looking at what it says. Lines that cannot be decoded are left
// out.
func Lines(text []byte) ([]Line, error) { return newRecord().lines("record", text) }

// mostNotes bounds how many notes are kept.
const mostNotes = 10

func (r *Record) note(format string, args ...any) {
	switch {
	case len(r.Notes) < mostNotes:
		r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
	case len(r.Notes) == mostNotes:
		r.Notes = append(r.Notes, "there are more notes, which are not shown")
	}
}

// lines decodes a file.
func (r *Record) lines(name string, text []byte) (all []Line, err error) {
	var from io.Reader = bytes.NewReader(text)
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		if from, err = gzip.NewReader(from); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	limited := &io.LimitedReader{R: from, N: r.textLeft + 1}
	reader := bufio.NewReaderSize(limited, 1<<16)
	for n := 1; err == nil; n++ {
		var text []byte
		var isTooLong bool
		text, isTooLong, err = readLine(reader)
		switch {
		case limited.N == 0:
			return nil, fmt.Errorf(
				"%s: its text has more than %d bytes; record with a smaller --max-size", name, r.textLeft,
			)
		case isTooLong:
			r.note("%s: line %d has more than %d bytes, and is left out", name, n, mostOfLine)
			continue
		case len(text) == 0:
			continue
		}
		line, problem := decodeLine(text)
		if problem != nil {
			r.note("%s: line %d is no line of a record: %v", name, n, problem)
			continue
		}
		if line.Schema != "" && line.Schema != Schema {
			return nil, fmt.Errorf("%s: line %d: schema %q: this program reads %s", name, n, line.Schema, Schema)
		}
		all = append(all, line)
	}
	if !errors.Is(err, io.EOF) {
		r.note("%s: it ends within a line: %v", name, err)
	}
	return all, nil
}

// readLine returns the next line without its end. Of a line that is too long it returns nothing.
func readLine(from *bufio.Reader) (line []byte, isTooLong bool, err error) {
	for {
		part, err := from.ReadSlice('\n')
		if isTooLong = isTooLong || len(line)+len(part) > mostOfLine; isTooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(line, "\r\n"), isTooLong, err
		}
	}
}

func decodeLine(text []byte) (line Line, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&line); err != nil {
		return line, err
	}
	numbers(line.Object)
	numbers(line.Patch)
	return line, nil
}

// add takes one line.
func (r *Record) add(line Line) error {
	if line.Time.After(r.end) {
		r.end = line.Time
	}
	line.Time = r.end // a clock that was set back must not put an effect before its cause
	switch line.Op {
	case Begin:
		r.listing = map[key]bool{}
		return nil
	case Listed:
		for kind, cause := range line.Unread {
			r.unread[explain.Kind(kind)] = cause
		}
		for k, t := range r.objects {
			if r.listing != nil && t.content != nil && !r.listing[k] {
				// it went while no recorder ran; its content was decoded before
				if err := r.change(k, t, nil, line); err != nil {
					return err
				}
			}
		}
		r.listing = nil
		if r.begin.IsZero() {
			r.begin = line.Time
		}
		return nil
	case Called:
		if line.Call == nil {
			return errors.New("a call without a call")
		}
		r.calls = append(r.calls, *line.Call)
		return nil
	case Noted:
		r.note("%s", line.Note)
		return nil
	case Have, Add, Change, Delete:
		return r.object(line)
	}
	return fmt.Errorf("operation %q is not known", line.Op)
}

// object takes a line about an object.
func (r *Record) object(line Line) error {
	k := line.key()
	if k.kind == "" || k.name == "" {
		return errors.New("it has no kind or name")
	}
	t := r.objects[k]
	if t == nil {
		t = &timeline{}
		r.objects[k] = t
	}
	if r.listing != nil {
		r.listing[k] = line.Op != Delete
	}
	content := line.Object
	if line.Op == Change || line.Op == Delete {
		if t.content == nil {
			return fmt.Errorf("a change of %s %s, which no line before it has", k.kind, k.name)
		}
		content = merge(t.content, line.Patch)
	}
	if content == nil {
		return errors.New("it has no object")
	}
	if line.Op == Have && isVersion(t.content, content) {
		return nil
	}
	return r.change(k, t, content, line)
}

// isVersion reports whether two contents are the same version of an object.
func isVersion(a, b map[string]any) bool {
	was, _ := a["metadata"].(map[string]any)
	now, _ := b["metadata"].(map[string]any)
	return was != nil && now != nil && was["uid"] == now["uid"] && was["resourceVersion"] != nil &&
		was["resourceVersion"] == now["resourceVersion"]
}

// change appends a version. A nil content is the end of the object.
func (r *Record) change(k key, t *timeline, content map[string]any, line Line) error {
	isGone := content == nil || line.Op == Delete
	if content == nil {
		content = t.content
	}
	object, err := typed(content)
	if err != nil {
		return fmt.Errorf("%s %s: %w", k.kind, k.name, err)
	}
	if object == nil {
		return nil // of a kind that this program does not read
	}
	if kind, _ := content["kind"].(string); kind != k.kind || object.GetName() != k.name ||
		object.GetNamespace() != k.namespace {
		return fmt.Errorf("its object is %s %s, and not %s %s", kind, object.GetName(), k.kind, k.name)
	}
	if err := r.spend(content); err != nil {
		return err
	}
	t.content = content
	if isGone {
		t.content = nil
	}
	c := life.Change{
		At: line.Time, Existed: line.Op == Have && !t.seen, Kind: explain.Kind(k.kind), Object: object,
		Deleted: isGone, By: line.By, Changed: line.Changed,
	}
	r.changes = append(r.changes, c)
	t.seen = true
	return nil
}

// typed decodes a content, which it does not change.
func typed(content map[string]any) (client.Object, error) {
	if kind, _ := content["kind"].(string); strings.HasPrefix(kind, "VolumeGroupSnapshot") {
		content = runtime.DeepCopyJSON(content) // of an older version, it is changed
	}
	return inventory.Decode(content)
}

// End is the time of the last line.
func (r *Record) End() time.Time { return r.end }
