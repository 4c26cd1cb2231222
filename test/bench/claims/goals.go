package claims

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/e2e/audit"
)

// goal is a number and what it is to be.
type goal struct {
	name       string
	here       float64
	limit      float64
	format     string // of both
	atLeast    bool
	annotation string
	open       bool // a number that nothing is said of
}

func (g goal) String() string {
	sign, met := "<=", g.here <= g.limit
	if g.atLeast {
		sign, met = ">=", g.here >= g.limit
	}
	word := "met"
	if !met {
		word = "NOT MET"
	}
	limit := sign + " " + fmt.Sprintf(g.format, g.limit)
	if g.open {
		limit, word = "", ""
	}
	text := strings.TrimRight(fmt.Sprintf("%-52s%9s%9s%9s", g.name, fmt.Sprintf(g.format, g.here), limit, word), " ")
	if g.annotation != "" {
		text += "\n  " + g.annotation
	}
	return text
}

// The goals of our binder.
const (
	floorGoal = 0.80    // of the floor's rate
	stockGoal = 1.8     // times the stock controllers' rate
	tailGoal  = 1.0 / 3 // of the stock controllers' p99
	idleGoal  = 0.2     // percent of a core
)

// goals are of those who took part.
func (o outcome) goals() (all []goal) {
	o.each(func(string) {}, func(r row) {
		switch ours := r.contender == nameOurs || r.contender == namePlane; {
		case ours && r.trial == trialOne:
			if ratio, compared := o.beside(r, nameStock, p50); compared {
				name := r.trial + ", " + r.contender + ": p50 of stock's"
				all = append(all, goal{name: name, here: ratio, limit: 1, format: "%.2f"})
			}
		case ours:
			all = append(all, o.goalsOf(r)...)
		}
		all = append(all, o.provisionerGoals(r)...)
	})
	for _, idle := range o.idle {
		if idle.contender != nameStock {
			name := idle.contender + ", idle: percent of a core"
			all = append(all, goal{name: name, here: idle.share * 100, limit: idleGoal, format: "%.2f"})
		}
	}
	return all
}

// provisionerGoals are of our provisioner beside the stock controllers: as they are shipped,
// without limits, and started when they have asked for everything.
func (o outcome) provisionerGoals(r row) []goal {
	when := map[string]string{nameSlow: whenShipped, nameStock: whenUnlimited, nameLate: whenLate}[r.contender]
	switch {
	case when == "":
		return nil
	case r.trial == trialDelete && when != whenLate:
		return r.deletes(when)
	case r.trial != trialDynamic:
		return nil
	}
	pace := o.middlePace(r).goal(when)
	switch when {
	case whenLate:
		return []goal{pace}
	case whenUnlimited:
		// Who writes what is asked for meanwhile is as fast as the other, less what the last claim
		// waits longer than the first. On an API server that has more to do than it can, no client
		// comes up to 1, so a bare client is what this one is compared with.
		pace.open, pace.annotation = true, pace.annotation+o.reachable(r)
	}
	return append([]goal{pace}, r.creates(when)...)
}

const (
	whenShipped   = "as shipped"
	whenUnlimited = "beside stock"
	whenLate      = "after stock"
)

func (o outcome) goalsOf(r row) (all []goal) {
	name := r.trial + ", " + r.contender + ": "
	compare := func(what, other string, number func(row) float64, limit float64, atLeast bool) {
		if ratio, compared := o.beside(r, other, number); compared {
			all = append(all, goal{name: name + what, here: ratio, limit: limit, format: "%.2f", atLeast: atLeast})
		}
	}
	compare("of the floor", r.floor, row.rate, floorGoal, true)
	compare("x stock", nameStock, row.rate, stockGoal, true)
	compare("p99 of stock's", nameStock, p99, tailGoal, false)
	conflicts := 0
	for _, round := range o.rounds(r.trial, r.contender) {
		conflicts += countsOf(round.asked).conflicts
	}
	return append(all, goal{name: name + "conflicts", here: float64(conflicts), format: "%.0f"})
}

// The goals of our provisioner beside the stock controllers, for each claim.
const (
	createWrites = 1.4
	deleteWrites = 2
	eventsGoal   = 2
)

// middlePace is the one in the middle of all rounds.
func (o outcome) middlePace(r row) pace {
	var all []pace
	for _, round := range o.rounds(r.trial, r.contender) {
		all = append(all, round.pace)
	}
	slices.SortFunc(all, func(a, b pace) int { return cmp.Compare(a.ratio(), b.ratio()) })
	return all[len(all)/2]
}

// reachable is the pace of a provisioner that does nothing but write volumes, in the same rounds;
// empty where it took no part.
func (o outcome) reachable(r row) string {
	ratio, compared := o.beside(r, nameAlone, func(r row) float64 { return r.pace.ratio() })
	if !compared {
		return ""
	}
	bare := o.middlePace(*o.row(r.trial, nameAlone))
	return fmt.Sprintf("\n  of which a bare client reaches %.2f, and this one %.2f of that\n  %s",
		hundredths(bare.ratio()), hundredths(ratio), bare)
}

func (r row) creates(when string) []goal {
	c := countsOf(r.made)
	return []goal{
		r.provisioner(when+": writes of the provisioner, created", c.writes, createWrites),
		r.provisioner(when+": its events", c.events, eventsGoal),
		r.provisioner(when+": CreateVolume", r.calls["CreateVolume"], 1),
		{name: when + ": answers 404 and 409 to it", here: float64(c.vainly), format: "%.0f"},
	}
}

func (p pace) goal(when string) goal {
	return goal{
		name: when + ": PVs written per PV asked for, in rate", here: hundredths(p.ratio()), limit: 1, format: "%.2f", atLeast: true,
		annotation: p.String(),
	}
}

// hundredths is how exactly a rate is known at most: a moment more for one claim of a thousand is
// no other pace.
func hundredths(x float64) float64 { return math.Round(x*100) / 100 }

func (r row) deletes(when string) []goal {
	c := countsOf(r.made)
	return []goal{
		r.provisioner(when+": writes of the provisioner, deleted", c.writes, deleteWrites),
		r.provisioner(when+": DeleteVolume", r.calls["DeleteVolume"], 1),
		{name: when + ": answers 404 and 409 to it", here: float64(c.vainly), format: "%.0f"},
	}
}

func (r row) provisioner(name string, n int, limit float64) goal {
	return goal{name: name, here: float64(n) / float64(r.claims), limit: limit, format: "%.2f"}
}

// pace compares how fast the PV controller asks for volumes with how fast they are given.
type pace struct {
	asked   audit.Moments // each claim's first update by the PV controller, which names the provisioner
	written audit.Moments // each PersistentVolume's creation
}

func paceOf(log *audit.Log, begin, end audit.Mark) (both pace, err error) {
	asks := audit.Request{User: userBinder, Verb: "update", Resource: "persistentvolumeclaims"}
	if both.asked, err = log.Firsts(begin, end, asks); err != nil {
		return both, err
	}
	writes := audit.Request{User: userProvisioner, Verb: "create", Resource: "persistentvolumes"}
	both.written, err = log.Firsts(begin, end, writes)
	return both, err
}

// lag is from the claim that was asked for as the part-th of all, to the volume that was written as
// the part-th: what grows from one part to the next is work that heaps up.
func (p pace) lag(part float64) time.Duration {
	if len(p.asked) == 0 || len(p.written) == 0 {
		return 0
	}
	at := func(m audit.Moments) time.Time { return m[int(part*float64(len(m)-1))] }
	return at(p.written).Sub(at(p.asked))
}

// ratio of the rates: with 1, volumes are written as fast as they are asked for for them. While
// they are asked for it is hardly more: it falls below by what the last claim waits longer than the
// first. Where all were asked for before, it is how many times as fast one is as the other.
func (p pace) ratio() float64 {
	return perSecond(len(p.written), p.written.Span()) / perSecond(len(p.asked), p.asked.Span())
}

func (p pace) String() string {
	return fmt.Sprintf("(%.1f/s of %.1f/s; behind by %d, in the middle %d, at last %d ms)",
		perSecond(len(p.written), p.written.Span()), perSecond(len(p.asked), p.asked.Span()),
		p.lag(0).Milliseconds(), p.lag(0.5).Milliseconds(), p.lag(1).Milliseconds())
}

func perSecond(n int, in time.Duration) float64 { return float64(n) / in.Seconds() }
