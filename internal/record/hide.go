package record

import (
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// HideNames writes a record with its names replaced as in a dump, each by the same word in all
// lines. Calls and notes are left out: their texts have names that no object has. A line about an
// object is left out if its names cannot be replaced: without an earlier content of the object that
// it changes, or with another name than that of its content. The notes say which lines are not used.
func HideNames(text []byte, to io.Writer) (notes []string, err error) {
	r := newRecord()
	lines, err := r.lines("record", text)
	if err != nil {
		return nil, err
	}
	lines, items, err := r.public(lines)
	if err != nil {
		return r.Notes, err
	}
	var unread []map[string]string
	for _, line := range lines {
		unread = append(unread, line.Unread)
	}
	hidden := inventory.HideNamesAndCauses(items, unread...)
	before := map[key]map[string]any{}
	for _, line := range lines {
		if line.Kind != "" {
			hideLine(&line, hidden[0], before)
			hidden = hidden[1:]
		}
		if err := writeLine(to, line); err != nil {
			return r.Notes, err
		}
	}
	return r.Notes, nil
}

// public returns the lines that a hidden record has, and the contents of those about an object.
func (r *Record) public(lines []Line) (all []Line, items []map[string]any, err error) {
	contents := map[key]map[string]any{}
	for _, line := range lines {
		switch line.Op {
		case Begin, Listed:
			all = append(all, Line{
				Time: line.Time, Op: line.Op, Schema: line.Schema, Program: line.Program, Unread: line.Unread,
				Hidden: line.Op == Begin,
			})
		case Have, Add, Change, Delete:
			k, content := line.key(), line.Object
			if line.Op == Change || line.Op == Delete {
				if content = contents[k]; content != nil {
					content = merge(content, line.Patch)
				}
			}
			if !k.isOf(content) {
				r.note("a line about %s %s has no content of that name, and is left out", k.kind, k.name)
				continue
			}
			if err := r.spend(content); err != nil {
				return nil, nil, err
			}
			contents[k] = content
			if line.Op == Delete {
				delete(contents, k)
			}
			all, items = append(all, line), append(items, runtime.DeepCopyJSON(content))
		case Called, Noted:
		}
	}
	return all, items, nil
}

// isOf reports whether a content has the kind and the names of a key.
func (k key) isOf(content map[string]any) bool {
	metadata, _ := content["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return k.kind != "" && k.name != "" && content["kind"] == k.kind && metadata["name"] == k.name &&
		namespace == k.namespace
}

// hideLine replaces the content of a line. before has the contents of the lines before.
func hideLine(line *Line, content map[string]any, before map[key]map[string]any) {
	metadata, _ := content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	by := make([]string, len(line.By))
	for i, manager := range line.By {
		by[i] = inventory.PublicManager(manager)
	}
	*line = Line{
		Time: line.Time, Op: line.Op, Kind: line.Kind, Namespace: namespace, Name: name, UID: line.UID,
		Version: line.Version, By: by,
	}
	if line.Op == Have || line.Op == Add {
		line.Object = content
	} else {
		line.Patch, line.Changed = diff(before[line.key()], content)
		line.Changed = slices.DeleteFunc(line.Changed, isBookkeeping)
	}
	before[line.key()] = content
}
