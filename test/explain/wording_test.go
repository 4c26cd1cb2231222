package explain

import (
	"regexp"
	"strings"
	"testing"
)

// faults are marks of texts that were put together wrong.
var faults = map[string]*regexp.Regexp{
	"a doubled full stop":            regexp.MustCompile(`[^.]\.\. |[?!]\. |,\. | \. `),
	"a full stop around a quotation": regexp.MustCompile(`[.?!][”"]\.( |$)`),
	"empty brackets":                 regexp.MustCompile(`\( *\)`),
	"one of a kind that is lacking":  regexp.MustCompile(`dump has no \w+[^s\W];`),
	"the name of no class":           regexp.MustCompile(`class "" does`),
	"one verb for several":           regexp.MustCompile(`(capabilities|flags|objects) is `),
	"a stray quote":                  regexp.MustCompile(`""\w|\w""`),
	"a plural of a word in s or y":   regexp.MustCompile(`[a-z]sss|[a-z]itys`),
	"a count with (s)":               regexp.MustCompile(`\w\(e?s\)`),
	"a count of one in plural":       regexp.MustCompile(`[ (]1 (pods|claims|volumes|nodes|objects|secrets|snapshots|finalizers|times) `),
	"a value that is not there":      regexp.MustCompile(`%!|<nil>|<no value>|map\[`),
	"a blank before a mark":          regexp.MustCompile(`\S [,.;] `),
	"a doubled word":                 regexp.MustCompile(` (the the|is is|of of|a a|to to|in in|on on) `),
}

// quoted are words of the scheduler and of the attach-detach controller.
var quoted = regexp.MustCompile(`node\(s\)|used by pod\(s\)`)

// same finds a field with a value and what is expected of it.
var same = regexp.MustCompile(` is (\S+); expected (\S+) `)

// TestWording reads the text about every situation, and about each object of it.
func TestWording(t *testing.T) {
	base, all := readSituations(t)
	for _, s := range all {
		path := s.dump(t, base)
		for _, args := range [][]string{{"explain", s.Explain, "-n", "shop"}, {"explain", "--all"}, {"tree", s.Explain, "-n", "shop"}} {
			text, _ := run(t, append(args, "--now", now, "--from", path)...)
			text = quoted.ReplaceAllString(strings.Join(strings.Fields(text), " ")+" ", "")
			for fault, pattern := range faults {
				if found := pattern.FindStringIndex(text); found != nil {
					t.Errorf("%s: %s: …%s…", s.Name, fault, text[max(0, found[0]-40):min(len(text), found[1]+40)])
				}
			}
			for _, found := range same.FindAllStringSubmatch(text, -1) {
				if found[1] == found[2] {
					t.Errorf("%s: the value is as expected: %s", s.Name, found[0])
				}
			}
		}
	}
}
