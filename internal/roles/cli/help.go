package cli

import (
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

const (
	groupAnnotation = "purser-group"
	helpWidth       = 80
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

// FlagGroups returns the flags by title, in the order in which the titles were added.
func FlagGroups(f *pflag.FlagSet) (groups cliflag.NamedFlagSets) {
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		title := "Flags"
		if given := flag.Annotations[groupAnnotation]; len(given) > 0 {
			title = given[0]
		}
		group := groups.FlagSet(title)
		group.SortFlags = false
		group.AddFlag(flag)
	})
	return groups
}

// FlagHelp returns the part of a help page about flags, with the marks of the flags.
func FlagHelp(f *pflag.FlagSet) string {
	var b strings.Builder
	groups := FlagGroups(f)
	for _, title := range groups.Order {
		marked := pflag.NewFlagSet(title, pflag.ContinueOnError)
		marked.SortFlags = false
		groups.FlagSets[title].VisitAll(func(flag *pflag.Flag) {
			one := *flag
			if mark := MarkOf(flag); mark != "" {
				one.Usage = "(" + mark + ") " + flag.Usage
			}
			marked.AddFlag(&one)
		})
		b.WriteString("\n" + title + ":\n" + marked.FlagUsagesWrapped(helpWidth))
	}
	return strings.TrimRight(b.String(), "\n")
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

// MarkOf returns the mark of a flag: MarkNew, MarkDeprecated or none. Upstream has no flag with our prefix.
func MarkOf(flag *pflag.Flag) string {
	if mark := flag.Annotations[markAnnotation]; len(mark) > 0 {
		return mark[0]
	}
	if strings.HasPrefix(flag.Name, "purser-") {
		return MarkNew
	}
	return ""
}
