package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/purser-csi/purser/test/compat/outcome"
	"github.com/purser-csi/purser/test/compat/scenario"
)

// comparison is one scenario with both results.
type comparison struct {
	scenario    scenario.Scenario
	first, then result
	lines       []string          // that differ
	listed      []*outcome.Listed // what explains them
	worse       []string          // what nothing explains
	again       bool              // the stock controllers had told less: it was played once more
}

// compare holds one result against the other.
func compare(s scenario.Scenario, first, then result, known outcome.List) comparison {
	c := comparison{scenario: s, first: first, then: then}
	if s.Loose == "" {
		c.lines = outcome.Difference(first.outcome, then.outcome)
	}
	for _, pattern := range s.Random {
		chance := outcome.Pattern("* " + pattern)
		c.lines = slices.DeleteFunc(c.lines, chance.MatchString)
	}
	c.listed, c.worse = known.Judge(s.Name, c.lines)
	for _, f := range then.failures {
		if len(first.failures) > 0 || len(c.lines) == 0 || len(c.worse) > 0 {
			c.worse = append(c.worse, "! "+f)
		}
	}
	for _, v := range then.violations {
		if !slices.ContainsFunc(first.violations, func(f string) bool { return rule(f) == rule(v) }) {
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

// report says what came of everything.
type report struct {
	comparisons []comparison
	unused      []*outcome.Listed // entries of the list that nothing needed
	names       [2]string
	took        [2]string
}

// toldLess are the scenarios in which the first side differs by nothing but events that it did not
// tell, or did not do what a scenario expects of it, such as when the API server gives a claim the
// class that was the default a moment before.
func (r report) toldLess() (quiet []scenario.Scenario) {
	for _, c := range r.comparisons {
		more := func(line string) bool { return strings.HasPrefix(line, "+ ") && strings.Contains(line, " event ") }
		odd := len(c.first.failures) > 0
		if len(c.worse) > 0 && (odd || !slices.ContainsFunc(c.worse, func(line string) bool { return !more(line) })) {
			quiet = append(quiet, c.scenario)
		}
	}
	return quiet
}

// replace takes over what came of scenarios that were played again.
func (r report) replace(again report) {
	for _, c := range again.comparisons {
		i := slices.IndexFunc(r.comparisons, func(was comparison) bool { return was.scenario.Name == c.scenario.Name })
		c.again = true
		r.comparisons[i] = c
	}
}

// verdict is what is said of a scenario.
func (c comparison) verdict() string {
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

func (r report) count() map[string]int {
	count := map[string]int{}
	for _, c := range r.comparisons {
		count[c.verdict()]++
	}
	return count
}

// failed reports whether anything is not as it should be: also the stock controllers' results,
// since a scenario that expects what does not come tries nothing.
func (r report) failed() bool {
	return r.count()["worse"] > 0 || len(r.unused) > 0 ||
		slices.ContainsFunc(r.comparisons, func(c comparison) bool { return len(c.first.failures) > 0 })
}

func (r report) write(w io.Writer) {
	for _, c := range r.comparisons {
		c.write(w, r.names)
	}
	for _, e := range r.unused {
		fmt.Fprintf(w, "listed, but seen no more: %s (%s): remove it from the list\n", e.Scenario, e.Where)
	}
	count := r.count()
	fmt.Fprintf(w, "compat: %s in %s, %s in %s\n", r.names[0], r.took[0], r.names[1], r.took[1])
	fmt.Fprintf(w, "compat: %d scenarios (%s): %d equal, %d better on purpose, %d with a listed limitation, %d worse\n",
		len(r.comparisons), r.families(), count["equal"], count["better"], count["limited"], count["worse"])
}

func (r report) families() string {
	count := map[string]int{}
	for _, c := range r.comparisons {
		count[c.scenario.Family]++
	}
	var parts []string
	for _, family := range slices.Sorted(maps.Keys(count)) {
		parts = append(parts, fmt.Sprintf("%s %d", family, count[family]))
	}
	return strings.Join(parts, ", ")
}

func (c comparison) write(w io.Writer, names [2]string) {
	if c.again && len(c.worse) == 0 {
		fmt.Fprintf(w, "%s: %s had dropped an event; played once more, it is %s\n", c.scenario.Name, names[0], c.verdict())
	}
	for _, f := range c.first.failures {
		fmt.Fprintf(w, "%s: NOT AS EXPECTED of %s\n    %s\n", c.scenario.Name, names[0], f)
	}
	for _, v := range c.first.violations {
		fmt.Fprintf(w, "%s: %s itself: %s\n", c.scenario.Name, names[0], v)
	}
	if len(c.lines) == 0 && len(c.worse) == 0 {
		return
	}
	verdict := "WORSE or not listed"
	if len(c.worse) == 0 {
		verdict = fmt.Sprintf("%s, %s", c.listed[0].Is, c.listed[0].Where)
	}
	fmt.Fprintf(w, "%s: %s\n", c.scenario.Name, verdict)
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
