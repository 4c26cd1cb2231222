package record

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/purser-csi/purser/internal/life"
)

// Schema names the form of a record. It is in the first line of a file and of each part that was
// appended to it.
const Schema = "purser.record/v1"

// Op says what a line is.
type Op string

// The operations.
const (
	Begin  Op = "begin"  // a recorder starts: Schema, Program
	Have   Op = "have"   // an object that existed when the recorder, or the file, began
	Listed Op = "listed" // all objects that exist have been written since the last begin; Unread
	Add    Op = "add"    // an object was created
	Change Op = "change" // Patch turns the content of the line before about this object into the new one
	Delete Op = "delete" // an object is gone; Patch leads to its last content
	Called Op = "call"   // a role called its driver, or decided something
	Noted  Op = "note"   // what could not be recorded
)

// Line is one line of a record. A line of the operation have replaces what earlier lines say of its
// object.
type Line struct {
	Time time.Time `json:"time"`
	Op   Op        `json:"op"`

	Schema  string            `json:"schema,omitempty"`
	Program string            `json:"program,omitempty"`
	Unread  map[string]string `json:"unread,omitempty"` // by kind: why its objects are not recorded
	Hidden  bool              `json:"hidden,omitempty"` // names are replaced

	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name,omitempty"`
	UID       string   `json:"uid,omitempty"`
	Version   string   `json:"resourceVersion,omitempty"` // that the API server gave the change
	By        []string `json:"by,omitempty"`              // managers of the fields that were written
	Changed   []string `json:"changed,omitempty"`         // paths of the fields that differ

	Object map[string]any `json:"object,omitempty"` // the content, for have and add
	Patch  map[string]any `json:"patch,omitempty"`  // a JSON merge patch (RFC 7386), for change and delete

	Call *life.Call `json:"call,omitempty"`
	Note string     `json:"note,omitempty"`
}

// key identifies the object of a line.
type key struct{ kind, namespace, name string }

func (l Line) key() key { return key{l.Kind, l.Namespace, l.Name} }

// diff returns the JSON merge patch from one content to another, and the paths of its leaves. Lists
// are replaced as a whole.
func diff(before, after map[string]any) (patch map[string]any, paths []string) {
	d := differ{}
	patch = d.diff("", before, after)
	if patch == nil {
		patch = map[string]any{}
	}
	slices.Sort(d.paths)
	return patch, d.paths
}

// differ collects the paths of a diff.
type differ struct{ paths []string }

// diff returns the patch from one map to another below a path; nil if they are equal.
func (d *differ) diff(path string, before, after map[string]any) (patch map[string]any) {
	set := func(field string, value any) {
		if patch == nil {
			patch = map[string]any{}
		}
		patch[field] = value
	}
	for field, now := range after {
		was, had := before[field]
		inner, isMap := now.(map[string]any)
		wasMap, wasOne := was.(map[string]any)
		switch {
		case isMap && wasOne:
			if part := d.diff(path+field+".", wasMap, inner); part != nil {
				set(field, part)
			}
		case !had || !equal(was, now):
			set(field, now)
			d.paths = append(d.paths, path+field)
		}
	}
	for field := range before {
		if _, has := after[field]; !has {
			set(field, nil)
			d.paths = append(d.paths, path+field)
		}
	}
	return patch
}

// equal compares two values of decoded JSON.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		other, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, other, equal)
	case []any:
		other, ok := b.([]any)
		return ok && slices.EqualFunc(a, other, equal)
	}
	return a == b
}

// merge applies a JSON merge patch. It changes neither of its arguments.
func merge(before, patch map[string]any) map[string]any {
	after := maps.Clone(before)
	if after == nil {
		after = map[string]any{}
	}
	for field, value := range patch {
		inner, isMap := value.(map[string]any)
		was, _ := after[field].(map[string]any)
		switch {
		case value == nil:
			delete(after, field)
		case isMap:
			after[field] = merge(was, inner)
		default:
			after[field] = value
		}
	}
	return after
}

// numbers replaces the numbers in a value by int64 or float64.
func numbers(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for field := range v {
			v[field] = numbers(v[field])
		}
	}
	return value
}
