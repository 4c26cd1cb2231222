package outcome

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Listed is a difference that is known and explained.
type Listed struct {
	Scenario string   `json:"scenario"` // a pattern with *
	Is       Judgment `json:"is"`
	Where    string   `json:"where"` // the page and the heading that explain it
	Lines    []string `json:"lines"` // patterns with * for the lines that differ, with their sign

	patterns []*regexp.Regexp
	used     bool
}

// Judgment says what a listed difference is.
type Judgment string

// The judgments.
const (
	Better     Judgment = "better"
	Limitation Judgment = "limitation"
)

// List is the list of known differences.
type List struct{ entries []*Listed }

// ReadList reads the list. open returns the text of a page of the documentation.
func ReadList(text []byte, open func(page string) (string, error)) (List, error) {
	var l List
	if err := yaml.UnmarshalStrict(text, &l.entries); err != nil {
		return l, fmt.Errorf("the list of differences: %w", err)
	}
	var mistakes []error
	for _, e := range l.entries {
		mistakes = append(mistakes, e.fault(open))
		for _, line := range e.Lines {
			e.patterns = append(e.patterns, Pattern(line))
		}
	}
	return l, errors.Join(mistakes...)
}

func (e *Listed) fault(open func(string) (string, error)) error {
	if e.Is != Better && e.Is != Limitation {
		return fmt.Errorf("%s: is: %q: say %q or %q", e.Scenario, e.Is, Better, Limitation)
	}
	page, heading, _ := strings.Cut(e.Where, "#")
	text, err := open(page)
	if err != nil {
		return fmt.Errorf("%s: where: %w", e.Scenario, err)
	}
	if heading == "" || !strings.Contains(text, `<a id="`+heading+`">`) {
		return fmt.Errorf(`%s: where: %s has no <a id="%s">`, e.Scenario, page, heading)
	}
	return nil
}

// Pattern matches a whole line, with * for anything.
func Pattern(pattern string) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
}

// Judge returns the judgments of all lines, or the lines without an explanation.
func (l List) Judge(scenario string, lines []string) (found []*Listed, unlisted []string) {
	for _, line := range lines {
		e := l.explains(scenario, line)
		if e == nil {
			unlisted = append(unlisted, line)
			continue
		}
		e.used = true
		found = append(found, e)
	}
	return found, unlisted
}

func (l List) explains(scenario, line string) *Listed {
	for _, e := range l.entries {
		if ok, err := path.Match(e.Scenario, scenario); err != nil || !ok {
			continue
		}
		for _, p := range e.patterns {
			if p.MatchString(line) {
				return e
			}
		}
	}
	return nil
}

// Unused are the entries that explained nothing: they are out of date.
func (l List) Unused() (all []*Listed) {
	for _, e := range l.entries {
		if !e.used {
			all = append(all, e)
		}
	}
	return all
}
