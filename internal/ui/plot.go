package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/purser-csi/purser/internal/life"
)

// The rows of a plot, in pixels.
const (
	axisHeight = 22
	laneHeight = 36
	barTop     = 15 // below the name of the lane
	barHeight  = 16
)

// plot is the drawing of a life. Horizontal places are percentages of the width, so that texts keep
// their size at every width; a script computes them anew for another window of time.
type plot struct {
	From, To         time.Time // of the life
	ViewFrom, ViewTo time.Time // what is shown first
	Height           int
	Rows             []plotRow
	Bars             []bar
	Ticks            []tick
}

// plotRow is one lane.
type plotRow struct {
	Name string
	Y    int // of its top
	Line int // of the line below it
	Text int // of the base of its name
}

// bar is a phase or an interval.
type bar struct {
	ID       string // of the row of the table that it leads to
	From, To int64  // milliseconds after the begin of the life
	X, Width string // in percent
	Y        int
	Class    string
	Hatched  bool
	Label    string
	Name     string // in the bar
	Slowest  bool
}

// Height returns the height of a bar.
func (bar) Height() int { return barHeight }

// tick is a time on the axis.
type tick struct {
	X    string
	Text string
}

// plotOf computes the drawing of a life.
func plotOf(v lifeView, now time.Time) plot {
	p := plot{From: v.From, To: now}
	if v.To != nil {
		p.To = *v.To
	}
	for _, phase := range v.Phases {
		p.From, p.To = earlier(p.From, phase.From), later(p.To, phase.To)
	}
	if !p.To.After(p.From) {
		p.To = p.From.Add(time.Second)
	}
	p.ViewFrom, p.ViewTo = firstView(v, p.From, p.To)
	rows := p.lanes(v)
	for _, phase := range v.Phases {
		p.bar(bar{
			ID: phase.ID, Y: rows["phases"], Class: "phase " + string(phase.Kind), Name: phase.Name,
			Label: fmt.Sprintf("%s, %s", phase.Name, took(phase.To.Sub(phase.From))),
		}, phase.From, phase.To)
		for _, i := range phase.Intervals {
			label := fmt.Sprintf("%s, %s: %s", i.LaneText(), i.Took, i.What)
			if i.Slowest {
				label = "Slowest. " + label
			}
			p.bar(bar{
				ID: i.ID, Y: rows[i.LaneText()], Class: string(i.State), Hatched: i.State == life.Waiting,
				Label: label, Slowest: i.Slowest,
			}, i.From, i.To)
		}
	}
	p.Ticks = ticksOf(p.ViewFrom, p.ViewTo, p.From)
	return p
}

// firstView is the phase that is not over, else the creation: a volume is used for days after the
// seconds that are of interest.
func firstView(v lifeView, from, to time.Time) (time.Time, time.Time) {
	var shown *phaseView
	for i, phase := range v.Phases {
		if phase.Kind != life.Use && (phase.Open || shown == nil) {
			shown = &v.Phases[i]
		}
	}
	if shown == nil || !shown.To.After(shown.From) {
		return from, to
	}
	margin := shown.To.Sub(shown.From) / 20
	return later(from, shown.From.Add(-margin)), earlier(to, shown.To.Add(margin))
}

// lanes adds the rows of the lanes that have an interval, and returns the place of each.
func (p *plot) lanes(v lifeView) map[string]int {
	used := map[string]bool{}
	for _, phase := range v.Phases {
		for _, i := range phase.Intervals {
			used[i.LaneText()] = true
		}
	}
	names := []string{"phases"}
	for _, lane := range append(slices.Clone(life.Lanes), life.NoLane) {
		if used[laneText(lane)] {
			names = append(names, laneText(lane))
		}
	}
	rows := map[string]int{}
	for i, name := range names {
		y := axisHeight + i*laneHeight
		p.Rows = append(p.Rows, plotRow{name, y, y + laneHeight, y + barTop - 4})
		rows[name] = y + barTop
	}
	p.Height = axisHeight + len(names)*laneHeight
	return rows
}

func (p *plot) bar(b bar, from, to time.Time) {
	b.From, b.To = from.Sub(p.From).Milliseconds(), to.Sub(p.From).Milliseconds()
	b.X, b.Width = percent(p.place(from)), percent(p.place(to)-p.place(from))
	p.Bars = append(p.Bars, b)
}

// place is where a time is in the first view, from 0 to 1; less or more outside of it.
func (p *plot) place(at time.Time) float64 {
	return float64(at.Sub(p.ViewFrom)) / float64(p.ViewTo.Sub(p.ViewFrom))
}

func percent(share float64) string {
	const far = 100 // some renderers lose precision far outside of the drawing
	return fmt.Sprintf("%.3f%%", 100*max(-far, min(share, far)))
}

// Millis returns a time as milliseconds after the begin.
func (p plot) Millis(at time.Time) int64 { return at.Sub(p.From).Milliseconds() }

// steps are the distances that ticks may have.
var steps = []time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond,
	500 * time.Millisecond, time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute,
	5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
	30 * 24 * time.Hour, 365 * 24 * time.Hour,
}

// mostTicks is how many ticks fit a narrow screen.
const mostTicks = 5

// ticksOf returns the ticks of a view, as times after the begin.
func ticksOf(from, to, begin time.Time) (all []tick) {
	span := to.Sub(from)
	step := steps[len(steps)-1]
	for _, s := range steps {
		if span/s <= mostTicks {
			step = s
			break
		}
	}
	for at := begin.Add((from.Sub(begin) + step - 1) / step * step); !at.After(to); at = at.Add(step) {
		all = append(all, tick{percent(float64(at.Sub(from)) / float64(span)), "+" + took(at.Sub(begin))})
	}
	return all
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
