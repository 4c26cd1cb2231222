package record

import (
	"cmp"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/purser-csi/purser/internal/explain/inventory"
)

// HideNames writes a record with its names replaced as in a dump, each by the same word in all
// lines. Calls are left out: they have handles and no objects. A text that no line of an object has
// as a name, such as a note, is left out too.
func HideNames(text []byte, to io.Writer) error {
	r := new(Record)
	lines, err := r.lines("record", text)
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(lines, func(l Line) bool { return l.Op == Called || l.Op == Noted })
	contents := map[key]map[string]any{}
	var items []map[string]any
	var of []int // the line of each item
	for n, line := range lines {
		content := line.Object
		if line.Patch != nil {
			content = merge(contents[line.key()], line.Patch)
		}
		if content != nil {
			contents[line.key()] = content
			items, of = append(items, runtime.DeepCopyJSON(content)), append(of, n)
		}
	}
	hidden := inventory.HideNames(items)
	before := map[key]map[string]any{}
	for i, n := range of {
		hideLine(&lines[n], hidden[i], before)
	}
	for _, line := range lines {
		line.Hidden = line.Op == Begin
		if err := writeLine(to, line); err != nil {
			return err
		}
	}
	return nil
}

// hideLine replaces the content of a line. before has the contents of the lines before.
func hideLine(line *Line, content map[string]any, before map[key]map[string]any) {
	metadata, _ := content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	namespace, _ := metadata["namespace"].(string)
	line.Name, line.Namespace = cmp.Or(name, "hidden"), namespace
	for i, manager := range line.By {
		line.By[i] = inventory.PublicManager(manager)
	}
	if line.Patch == nil {
		line.Object = content
	} else {
		line.Patch, line.Changed = diff(before[line.key()], content)
		line.Changed = slices.DeleteFunc(line.Changed, isBookkeeping)
	}
	before[line.key()] = content
}
