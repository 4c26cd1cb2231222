package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/scenario"
)

// Result is the result of one scenario.
type Result struct {
	Outcome    outcome.Outcome
	Failures   []string // waits and expectations that were not met
	Violations []string // of the invariants
}

// Comparison is one scenario with both results.
type Comparison struct {
	Scenario    scenario.Scenario
	First, Then Result
	lines       []string          // that differ
	listed      []*outcome.Listed // what explains them
	worse       []string          // what nothing explains
	again       bool              // upstream had emitted fewer events, and it was played again
}

// Compare holds one result against the other.
func Compare(s scenario.Scenario, first, then Result, known outcome.List) Comparison {
	c := Comparison{Scenario: s, First: first, Then: then}
	if s.Loose == "" {
		c.lines = outcome.Difference(first.Outcome, then.Outcome)
	}
	for _, pattern := range s.Random {
		chance := outcome.Pattern("* " + pattern)
		c.lines = slices.DeleteFunc(c.lines, chance.MatchString)
	}
	c.listed, c.worse = known.Judge(s.Name, c.lines)
	for _, f := range then.Failures {
		if len(first.Failures) > 0 || len(c.lines) == 0 || len(c.worse) > 0 {
			c.worse = append(c.worse, "! "+f)
		}
	}
	for _, v := range then.Violations {
		if !slices.ContainsFunc(first.Violations, func(f string) bool { return rule(f) == rule(v) }) {
			c.worse = append(c.worse, "! "+v)
		}
	}
	return c
}

// rule is a violation without when it was.
func rule(violation string) string {
	text, _, _ := strings.Cut(violation, ", resource version ")
	return text
}

// Report has the results of all scenarios.
type Report struct {
	Comparisons []Comparison
	Unused      []*outcome.Listed // entries of the list that explained no difference
	Names       [2]string         // of the two sides
	Took        [2]string
}

// ToldLess returns the scenarios in which the first side differs only by missing events, or did not
// meet an expectation, for example because the API server gave a claim the previous default class.
func (r Report) ToldLess() (quiet []scenario.Scenario) {
	for _, c := range r.Comparisons {
		more := func(line string) bool { return strings.HasPrefix(line, "+ ") && strings.Contains(line, " event ") }
		odd := len(c.First.Failures) > 0
		if len(c.worse) > 0 && (odd || !slices.ContainsFunc(c.worse, func(line string) bool { return !more(line) })) {
			quiet = append(quiet, c.Scenario)
		}
	}
	return quiet
}

// Replace replaces the results of scenarios that were played again.
func (r Report) Replace(again Report) {
	for _, c := range again.Comparisons {
		i := slices.IndexFunc(r.Comparisons, func(was Comparison) bool { return was.Scenario.Name == c.Scenario.Name })
		c.again = true
		r.Comparisons[i] = c
	}
}

// verdict returns the verdict about a scenario as text.
func (c Comparison) verdict() string {
	limited := func(e *outcome.Listed) bool { return e.Is == outcome.Limitation }
	switch {
	case len(c.worse) > 0:
		return "worse"
	case slices.ContainsFunc(c.listed, limited):
		return "limited"
	case len(c.listed) > 0:
		return "better"
	}
	return "equal"
}

func (r Report) count() map[string]int {
	count := map[string]int{}
	for _, c := range r.Comparisons {
		count[c.verdict()]++
	}
	return count
}

// Failed reports whether a result is wrong, also one of the stock controllers, since a scenario
// whose expectation is not met tests nothing.
func (r Report) Failed() bool {
	return r.count()["worse"] > 0 || len(r.Unused) > 0 ||
		slices.ContainsFunc(r.Comparisons, func(c Comparison) bool { return len(c.First.Failures) > 0 })
}

// Write writes the differences and the counts.
func (r Report) Write(w io.Writer) {
	for _, c := range r.Comparisons {
		c.write(w, r.Names)
	}
	for _, e := range r.Unused {
		fmt.Fprintf(w, "listed, but seen no more: %s (%s): remove it from the list\n", e.Scenario, e.Where)
	}
	count := r.count()
	fmt.Fprintf(w, "compat: %s in %s, %s in %s\n", r.Names[0], r.Took[0], r.Names[1], r.Took[1])
	fmt.Fprintf(w, "compat: %d scenarios (%s): %d equal, %d better on purpose, %d with a listed limitation, %d worse\n",
		len(r.Comparisons), r.families(), count["equal"], count["better"], count["limited"], count["worse"])
}

func (r Report) families() string {
	count := map[string]int{}
	for _, c := range r.Comparisons {
		count[c.Scenario.Family]++
	}
	var parts []string
	for _, family := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s %d", family, count[family]))
	}
	return strings.Join(parts, ", ")
}

func (c Comparison) write(w io.Writer, names [2]string) {
	if c.again && len(c.worse) == 0 {
		fmt.Fprintf(w, "%s: %s had dropped an event; played once more, it is %s\n", c.Scenario.Name, names[0], c.verdict())
	}
	for _, f := range c.First.Failures {
		fmt.Fprintf(w, "%s: NOT AS EXPECTED of %s\n    %s\n", c.Scenario.Name, names[0], f)
	}
	for _, v := range c.First.Violations {
		fmt.Fprintf(w, "%s: %s itself: %s\n", c.Scenario.Name, names[0], v)
	}
	if len(c.lines) == 0 && len(c.worse) == 0 {
		return
	}
	verdict := "WORSE or not listed"
	if len(c.worse) == 0 {
		verdict = fmt.Sprintf("%s, %s", c.listed[0].Is, c.listed[0].Where)
	}
	fmt.Fprintf(w, "%s: %s\n", c.Scenario.Name, verdict)
	shown := c.lines
	for _, line := range c.worse {
		if strings.HasPrefix(line, "!") {
			shown = append(shown, line)
		}
	}
	for _, line := range shown {
		fmt.Fprintf(w, "    %s\n", line)
	}
}
