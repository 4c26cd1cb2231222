package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

const (
	groupAnnotation = "purser-group"
	helpWidth       = 80
	helpIndent      = 6
)

// Grouped adds flags under a title of the help page.
func Grouped(f *pflag.FlagSet, title string, add func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(title, pflag.ContinueOnError)
	group.SortFlags, f.SortFlags = false, false
	add(group)
	group.VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[groupAnnotation] = []string{title}
		f.AddFlag(flag)
	})
}

// FlagGroup is a part of a help page.
type FlagGroup struct {
	Title string
	Flags []*pflag.Flag
}

// FlagGroups lists the flags by title, in the order in which they were added; flags without a title
// come last.
func FlagGroups(f *pflag.FlagSet) []FlagGroup {
	var groups []FlagGroup
	other := FlagGroup{Title: "Flags"}
	f.VisitAll(func(flag *pflag.Flag) {
		title := flag.Annotations[groupAnnotation]
		switch i := slices.IndexFunc(groups, func(g FlagGroup) bool { return slices.Equal(title, []string{g.Title}) }); {
		case flag.Hidden:
		case len(title) == 0:
			other.Flags = append(other.Flags, flag)
		case i < 0:
			groups = append(groups, FlagGroup{Title: title[0], Flags: []*pflag.Flag{flag}})
		default:
			groups[i].Flags = append(groups[i].Flags, flag)
		}
	})
	return append(groups, other)
}

// FlagHelp returns the part of a help page about flags: each flag on its own line, and its
// description indented below.
func FlagHelp(f *pflag.FlagSet) string {
	var b strings.Builder
	for _, g := range FlagGroups(f) {
		if len(g.Flags) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s:\n", g.Title)
		for _, flag := range g.Flags {
			fmt.Fprintf(&b, "  %s\n%s\n", flagLine(flag), indented(flagUsage(flag), helpIndent, helpWidth))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// flagLine returns the flag with its value and default.
func flagLine(flag *pflag.Flag) string {
	line := "--" + flag.Name
	if flag.Shorthand != "" {
		line = "-" + flag.Shorthand + ", " + line
	}
	value, _ := pflag.UnquoteUsage(flag)
	if value != "" {
		line += " " + value
	}
	if def := flag.DefValue; def != "" && def != "false" && def != "0" && flag.Name != "help" {
		line += " (default " + def + ")"
	}
	return line
}

func flagUsage(flag *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(flag)
	if mark := MarkOf(flag); mark != "" {
		usage = "(" + mark + ") " + usage
	}
	return usage
}

// indented wraps and indents text.
func indented(text string, indent, width int) string {
	pad := strings.Repeat(" ", indent)
	line, out := pad, []string{}
	for word := range strings.FieldsSeq(text) {
		if len(line) > indent && len(line)+1+len(word) > width {
			out = append(out, line)
			line = pad
		}
		if len(line) > indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(out, line), "\n")
}

const (
	markAnnotation = "purser-mark"
	// MarkNew marks flags that upstream does not have.
	MarkNew = "new"
	// MarkDeprecated marks flags that are there for old manifests.
	MarkDeprecated = "deprecated"
)

// Marked marks flags as new, which upstream does not have, or as deprecated.
func Marked(f *pflag.FlagSet, mark string, names ...string) {
	for _, name := range names {
		flag := f.Lookup(name)
		if flag.Annotations == nil {
			flag.Annotations = map[string][]string{}
		}
		flag.Annotations[markAnnotation] = []string{mark}
	}
}

// MarkOf returns the mark of a flag: MarkNew, MarkDeprecated or none.
func MarkOf(flag *pflag.Flag) string {
	if mark := flag.Annotations[markAnnotation]; len(mark) > 0 {
		return mark[0]
	}
	return ""
}
