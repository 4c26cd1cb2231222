package ui

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/verdict"
)

// numbers are the counts and durations of a state.
type numbers struct {
	From, To   time.Time // of the operations; zero if the source has one time
	Operations []operationView
	Waits      []waitView
	Calls      []callView
	Slowest    []slowView
	Rates      *Rates
}

// operationView is how often one kind of operation ended.
type operationView struct {
	Name   string
	Total  int
	Second float64 // on the average
	Peak   float64 // in the busiest part
	Parts  []part
}

// part is one part of the time, as a bar of a drawing.
type part struct {
	X, Width, Height float64
	Y                float64
}

// waitView is how many objects wait for one reason.
type waitView struct {
	Reason  verdict.Reason
	Objects int
	Oldest  *time.Time
	Actor   explain.Actor
	Normal  bool
}

// callView are the calls to drivers of one RPC that ended with one code.
type callView struct {
	Name, Code         string
	Count              int
	Half, Most90, Most time.Duration // percentiles 50 and 90, and the longest
}

// slowView is a volume that took long.
type slowView struct {
	Claim explain.Ref
	Took  time.Duration
	Open  bool // it is not bound yet
	From  time.Time
	Class string
	Since string // what the time is counted from
}

func numbersPage(s *State, _ url.Values) (page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.numbers == nil {
		s.numbers = numbersOf(s)
	}
	p := pageOf(s, "numbers", "Numbers")
	p.Notes, p.Unread, p.Body = s.Notes, s.boardLocked().Unread, s.numbers
	return p, nil
}

// numbersOf computes the numbers. The caller holds the lock.
func numbersOf(s *State) *numbers {
	n := &numbers{Waits: waitsOf(s.boardLocked()), Rates: s.Rates}
	history := s.past()
	ended := endedIn(history)
	if s.At != nil {
		n.From, n.To = s.begin(), s.Cluster.Now
		n.Operations = operationsOf(ended, n.From, n.To)
	}
	n.Calls = callsOf(history.Calls)
	n.Slowest = slowestOf(s.Cluster, ended)
	return n
}

// waitsOf counts the objects of the board by reason.
func waitsOf(b *board) (all []waitView) {
	at := map[verdict.Reason]int{}
	for _, c := range slices.Concat(b.Causes, b.Waits) {
		i, known := at[c.Reason]
		if !known {
			i, at[c.Reason] = len(all), len(all)
			all = append(all, waitView{Reason: c.Reason, Actor: c.Finding.Actor, Normal: c.Normal})
		}
		all[i].Objects += len(c.Objects)
		if c.Oldest != nil && (all[i].Oldest == nil || c.Oldest.Before(*all[i].Oldest)) {
			all[i].Oldest = c.Oldest
		}
	}
	slices.SortStableFunc(all, func(a, b waitView) int { return cmp.Compare(b.Objects, a.Objects) })
	return all
}

// callsOf groups the calls to drivers by RPC and code.
func callsOf(calls []life.Call) (all []callView) {
	durations := map[[2]string][]time.Duration{}
	for _, c := range calls {
		if c.Code != "" { // others are decisions
			key := [2]string{c.Name, c.Code}
			durations[key] = append(durations[key], c.To.Sub(c.From))
		}
	}
	for key, took := range durations {
		slices.Sort(took)
		all = append(all, callView{
			Name: key[0], Code: key[1], Count: len(took), Half: quantile(took, 0.5), Most90: quantile(took, 0.9),
			Most: took[len(took)-1],
		})
	}
	slices.SortFunc(all, func(a, b callView) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Code, b.Code))
	})
	return all
}

// quantile returns the value below which a part of the sorted values is.
func quantile(sorted []time.Duration, part float64) time.Duration {
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

const (
	mostParts     = 60
	drawingHeight = 40
)

// operationsOf counts what ended, in parts of the time.
func operationsOf(ended []ending, from, to time.Time) (all []operationView) {
	span := to.Sub(from)
	if span <= 0 {
		return nil
	}
	parts := min(mostParts, max(1, int(span/time.Second)))
	length := span / time.Duration(parts)
	counts := map[string][]int{}
	for _, e := range ended {
		if e.at.Before(from) || e.at.After(to) || e.coarse {
			continue
		}
		if counts[e.what] == nil {
			counts[e.what] = make([]int, parts)
		}
		counts[e.what][min(parts-1, int(e.at.Sub(from)/length))]++
	}
	for _, what := range operationNames {
		if counts[what] == nil {
			continue
		}
		v := operationView{Name: what}
		most := slices.Max(counts[what])
		for i, n := range counts[what] {
			v.Total += n
			height := drawingHeight * float64(n) / float64(most)
			v.Parts = append(v.Parts, part{
				100 * float64(i) / float64(parts), 100 / float64(parts), height, drawingHeight - height,
			})
		}
		v.Second, v.Peak = float64(v.Total)/span.Seconds(), float64(most)/length.Seconds()
		all = append(all, v)
	}
	return all
}

// mostSlow is how many volumes are named.
const mostSlow = 20

// slowestOf returns the claims that took, or take, the longest from their creation to their
// binding.
func slowestOf(c *explain.Cluster, ended []ending) []slowView {
	bound := map[explain.Ref]time.Time{}
	for _, e := range ended {
		if e.what == claimsBound {
			bound[e.object] = e.at
		}
	}
	starts := newStarts(c)
	var all []slowView
	for _, claim := range c.Claims {
		ref := explain.Ref{Kind: explain.Claim, Namespace: claim.Namespace, Name: claim.Name}
		v := slowView{Claim: ref}
		v.Class, v.From, v.Since = starts.of(claim)
		at, isBound := bound[ref]
		switch {
		case isBound && at.Before(v.From): // a pod came later
			v.From, v.Since = claim.CreationTimestamp.Time, sinceCreation
		case !isBound && claim.Status.Phase != "Pending":
			continue
		}
		if v.Open = !isBound; v.Open {
			at = c.Now
		}
		v.Took = at.Sub(v.From)
		all = append(all, v)
	}
	slices.SortStableFunc(all, func(a, b slowView) int { return cmp.Compare(b.Took, a.Took) })
	return firstOf(mostSlow, all)
}
