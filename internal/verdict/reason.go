package verdict

import (
	"slices"
	"strings"

	"github.com/purser-csi/purser/docs"
)

// Reason identifies the cause of a verdict. Reasons are stable: they are metric label values,
// fields of machine-readable output and headings of docs/reasons.md.
type Reason string

// Severity is the type of the event that a reason causes.
type Severity int

const (
	// Silent reasons cause no event.
	Silent Severity = iota
	// Normal reasons report progress.
	Normal
	// Warning reasons need the attention of a user or administrator.
	Warning
)

// Info is the event of a reason.
type Info struct {
	Severity Severity
	Event    string // the event reason: upstream's where upstream has one, else the reason itself
}

// Describe returns the event of a reason. A reason without one is silent.
func Describe(r Reason) Info { return events[r] }

// HasUpstreamEvent reports whether the event of a reason is one that upstream has too.
func HasUpstreamEvent(r Reason) bool {
	return slices.ContainsFunc(upstreams, func(row upstreamEvent) bool { return slices.Contains(row.reasons, r) })
}

// IsDocumented reports whether docs/reasons.md has a section about a reason. Each reason has one.
func IsDocumented(r Reason) bool { return section(r) != "" }

// Advice returns what a reader should check or do about a reason, from docs/reasons.md.
func Advice(r Reason) string {
	paragraphs := strings.Split(section(r), "\n\n")
	if len(paragraphs) < 2 || strings.HasPrefix(paragraphs[1], "Event: ") {
		return "Nothing to do."
	}
	return strings.Join(strings.Fields(paragraphs[1]), " ")
}

// Meaning returns what a reason says, from docs/reasons.md.
func Meaning(r Reason) string {
	text, _, _ := strings.Cut(section(r), "\n\n")
	return strings.Join(strings.Fields(text), " ")
}

// section returns the text of docs/reasons.md about a reason: a paragraph about its meaning, one of
// advice if there is any, and one with its event.
func section(r Reason) string {
	_, text, _ := strings.Cut(docs.Reasons, "\n### "+string(r)+"\n\n")
	text, _, _ = strings.Cut(text, "\n#")
	return strings.TrimSpace(text)
}

// All returns every reason of docs/reasons.md in alphabetical order.
func All() []Reason {
	var all []Reason
	for line := range strings.Lines(docs.Reasons) {
		if name, is := strings.CutPrefix(line, "### "); is {
			all = append(all, Reason(strings.TrimSpace(name)))
		}
	}
	slices.Sort(all)
	return all
}
