package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMutants breaks the controllers in one way after the other. The sweep must detect each mutant.
func TestMutants(t *testing.T) {
	began, killed, all := time.Now(), 0, 0
	for _, p := range sweepParts {
		t.Run(p.name, func(t *testing.T) { killed, all = killed+p.killMutants(t), all+len(p.mutants) })
	}
	fmt.Printf("mutants      %d of %d killed in %s\n", killed, all, time.Since(began).Round(time.Second))
}

// killMutants returns how many mutants were detected. MUTANT=WORDS keeps to those with the words in their
// names.
func (p sweepPart) killMutants(t *testing.T) (killed int) {
	calm := calmly(t, p.workloads)
	for _, m := range p.mutants {
		if !strings.Contains(m.name, os.Getenv("MUTANT")) {
			continue
		}
		started := time.Now()
		by, ok := p.kill(t, calm, m)
		if !ok {
			t.Errorf("the mutant that %s lives", m.name)
			continue
		}
		killed++
		fmt.Printf("  killed %-63s in %s by %s, %s\n", m.name, time.Since(started).Round(time.Millisecond), by.work.name, by.schedule)
		fmt.Printf("         %s\n", by.violations[0])
	}
	return killed
}

// mutantExtent is the part of the sweep that is run for a mutant, besides the whole family that is likely
// to detect it. Which schedules of the family detect it can differ between machines, since
// goroutines that are ready at the same time run in any order.
var mutantExtent = extent{every: 3, pairs: 200}

func (p sweepPart) kill(t *testing.T, calm []result, m mutant) (by result, killed bool) {
	t.Helper()
	var all []job
	for _, work := range p.workloads {
		all = append(all, job{work: work, mutant: m})
	}
	var first, plans [][]job
	for _, f := range p.families {
		if f.name == m.by {
			first = append(first, jobs(calm, f, extent{every: 1, pairs: mutantExtent.pairs}))
		} else {
			plans = append(plans, jobs(calm, f, mutantExtent))
		}
	}
	for _, j := range append(shuffled(first), shuffled(plans)...) {
		j.mutant = m
		all = append(all, j)
	}
	sweep(t, all, func(r result) bool {
		if r.violations = m.telling(r.violations); len(r.violations) > 0 && !killed {
			by, killed = r, true
		}
		return killed
	})
	return by, killed
}

// telling returns the violations that are caused by the mutant.
func (m mutant) telling(violations []string) []string {
	return slices.DeleteFunc(violations, func(v string) bool { return !m.costs && strings.HasPrefix(v, "I6:") })
}

// shuffled shuffles the schedules of each family with a fixed seed, and interleaves the families.
func shuffled(plans [][]job) (all []job) {
	mix := rand.New(rand.NewPCG(3, 4))
	longest := 0
	for _, p := range plans {
		mix.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
		longest = max(longest, len(p))
	}
	for i := range longest {
		for _, p := range plans {
			if i < len(p) {
				all = append(all, p[i])
			}
		}
	}
	return all
}
