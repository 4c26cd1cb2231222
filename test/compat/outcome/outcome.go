package outcome

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/purser-csi/purser/test/compat/record"
)

// Outcome is a set of lines "KIND/NAME path = value" and "KIND/NAME event Type Reason: message".
type Outcome map[string]bool

// Of is the outcome of a history.
func Of(scenario string, history []record.Change) Outcome {
	out := Outcome{}
	labels := uidLabels(scenario, history)
	final := map[string]record.Change{}
	for _, c := range history {
		if c.Kind == record.Events {
			if line := eventLine(c.Object); line != "" {
				out[labels.plain(line)] = true
			}
			continue
		}
		final[label(scenario, c)] = c
	}
	for name, c := range final {
		if c.Gone {
			out[name+" is gone"] = true
			continue
		}
		for path, value := range flatten(c.Object) {
			out[labels.plain(name+" "+path+" = "+value)] = true
		}
	}
	return out
}

// label is the name of an object in the scenario.
func label(scenario string, c record.Change) string {
	return c.Kind.Name + "/" + strings.TrimPrefix(c.Object.GetName(), scenario+".")
}

// naming turns real names and uids into those of the scenario.
type naming struct{ replacer *strings.Replacer }

func (n naming) plain(text string) string { return n.replacer.Replace(text) }

// uidLabels returns a label for the uid of each object that ever existed.
func uidLabels(scenario string, history []record.Change) naming {
	var pairs []string
	count, known := map[string]int{}, map[string]bool{}
	for _, c := range history {
		uid := string(c.Object.GetUID())
		if c.Kind == record.Events || known[uid] {
			continue
		}
		known[uid] = true
		name := label(scenario, c)
		if count[name]++; count[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, count[name])
		}
		pairs = append(pairs, uid, "<uid:"+name+">")
	}
	pairs = append(pairs, scenario+".", "", scenario, "<ns>")
	return naming{strings.NewReplacer(pairs...)}
}

// conflict is part of the API server's message for a conflict. Whether a controller emits an event
// about one varies from run to run.
const conflict = "the object has been modified"

// eventLine returns the line of an event; empty for events that are left out. The count and the
// time of an event are not compared.
func eventLine(e *unstructured.Unstructured) string {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(e.Object, path...)
		return value
	}
	if strings.Contains(text("message"), conflict) {
		return ""
	}
	kind := text("involvedObject", "kind")
	for _, k := range record.Kinds() {
		if k.Version.Kind == kind {
			kind = k.Name
		}
	}
	return fmt.Sprintf(
		"%s/%s event %s %s: %s",
		kind,
		text("involvedObject", "name"),
		text("type"),
		text("reason"),
		text("message"),
	)
}

// Difference returns the lines that only one outcome has, those of the first with a minus. Lines
// about one object are together.
func Difference(a, b Outcome) (lines []string) {
	for _, line := range slices.Sorted(maps.Keys(a)) {
		if !b[line] {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(b)) {
		if !a[line] {
			lines = append(lines, "+ "+line)
		}
	}
	slices.SortStableFunc(lines, func(x, y string) int { return strings.Compare(place(x), place(y)) })
	return lines
}

// place is the object and the path of a line.
func place(line string) string {
	parts := strings.SplitN(line[2:], " ", 3)
	return strings.Join(parts[:min(2, len(parts))], " ")
}
