package ui

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"time"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// lifeBody is what the page of an object shows.
type lifeBody struct {
	Object explain.Ref
	Report explain.Report
	Tree   *explain.Branch
	Lives  []lifeView
	Slider *slider
	At     *atBody // with a time in the address
}

// slider is the choice of a time.
type slider struct {
	From, To time.Time
	Seconds  float64 // between the two
	Value    float64 // seconds after From
}

// lifePage is the page of one object: what it waits for, and the lives of its volumes.
func lifePage(s *State, query url.Values) (page, error) {
	ref, err := refOf(query)
	if err != nil {
		return page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	body := lifeBody{Object: ref, Report: explained(s.Cluster, ref)}
	if tree, ok := s.Cluster.Tree(ref); ok {
		body.Tree = &tree
	}
	for i, l := range s.livesOf(ref) {
		body.Lives = append(body.Lives, s.view(i, l))
	}
	if body.Report.State == explain.Unknown && len(body.Lives) == 0 {
		return page{}, fmt.Errorf("%s: %s", ref, sentence(body.Report.Summary+" "+body.Report.Next))
	}
	if from := s.begin(); !from.IsZero() && s.Cluster.Now.After(from) {
		body.Slider = &slider{From: from, To: s.Cluster.Now, Seconds: s.Cluster.Now.Sub(from).Seconds()}
		body.Slider.Value = body.Slider.Seconds
		if query.Get("after") != "" {
			if body.At, err = s.at(ref, query); err != nil {
				return page{}, err
			}
			body.Slider.Value = body.At.Time.Sub(from).Seconds()
		}
	}
	p := pageOf(s, "life", ref.String())
	p.Live = p.Live && body.At == nil
	p.Notes, p.Unread, p.Body = s.Notes, body.Report.Unread, body
	return p, nil
}

// atBody is the answer about an object at a time.
type atBody struct {
	Time   time.Time
	Object explain.Ref
	Report explain.Report
	Tree   *explain.Branch
}

// atPage is the part of the object's page that says how it was.
func atPage(s *State, query url.Values) (page, error) {
	ref, err := refOf(query)
	if err != nil {
		return page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at, err := s.at(ref, query)
	if err != nil {
		return page{}, err
	}
	p := pageOf(s, "at", ref.String())
	p.Body = at
	return p, nil
}

// at explains an object as it was some seconds after the begin. The caller holds the lock.
func (s *State) at(ref explain.Ref, query url.Values) (*atBody, error) {
	seconds, err := strconv.ParseFloat(query.Get("after"), 64)
	if err != nil || math.IsNaN(seconds) || s.At == nil {
		return nil, fmt.Errorf("after=%q: expected seconds after the begin of a record", query.Get("after"))
	}
	from := s.begin()
	whole := s.Cluster.Now.Sub(from).Seconds()
	when := from.Add(time.Duration(max(0, min(seconds, whole)) * float64(time.Second)))
	cluster, err := s.At(when)
	if err != nil {
		return nil, err
	}
	body := &atBody{Time: when, Object: ref, Report: explained(cluster, ref)}
	if tree, ok := cluster.Tree(ref); ok {
		body.Tree = &tree
	}
	return body, nil
}

// lifeView is a life as it is drawn.
type lifeView struct {
	life.Life

	ID       string
	Now      time.Time
	Phases   []phaseView
	Plot     plot
	Percent  int // of the time of all phases that is attributed
	LastMark []markView
}

// phaseView is a phase with its intervals.
type phaseView struct {
	life.Phase

	ID        string
	Intervals []intervalView
}

// intervalView is an interval with what the page shows of it.
type intervalView struct {
	life.Interval

	ID      string
	Offset  string // from the begin of the phase
	Took    string
	Slowest bool
	Write   *write
}

// LaneText names the lane.
func (i intervalView) LaneText() string { return laneText(i.Lane) }

// stateTexts are the words for the states of intervals.
var stateTexts = map[life.State]string{
	life.Working: "works", life.Waiting: "waits", life.Used: "no step is due", life.Unknown: "not known",
}

// StateText says what the party of the lane does.
func (i intervalView) StateText() string { return stateTexts[i.State] }

func laneText(lane life.Lane) string {
	if lane == life.NoLane {
		return "not known"
	}
	return string(lane)
}

// markView is a mark with the fields that its write changed.
type markView struct {
	life.Mark

	Write *write
}

// mostMarks bounds the list of what happened.
const mostMarks = 400

// view computes what is drawn of a life. The caller holds the lock.
func (s *State) view(n int, l life.Life) lifeView {
	v := lifeView{Life: l, ID: fmt.Sprint("life-", n), Now: s.Cluster.Now}
	var known, all time.Duration
	ids := idsAt{l.From, map[string]bool{}}
	for _, phase := range l.Phases {
		pv := phaseView{Phase: phase, ID: ids.next(v.ID+"-"+string(phase.Kind), phase.From)}
		took := phase.To.Sub(phase.From)
		all, known = all+took, known+time.Duration(float64(took)*phase.Attributed)
		for _, interval := range phase.Intervals {
			iv := intervalView{
				Interval: interval, ID: ids.next(v.ID, interval.From), Took: tookText(interval.Took()),
				Offset:  "+" + tookText(interval.From.Sub(phase.From)),
				Slowest: l.Slowest != nil && phase.Kind != life.Use && isSame(interval, *l.Slowest),
			}
			if interval.Ends != nil {
				iv.Write = s.writeOf(*interval.Ends)
			}
			pv.Intervals = append(pv.Intervals, iv)
		}
		v.Phases = append(v.Phases, pv)
	}
	if v.Percent = 100; all > 0 {
		v.Percent = int(math.Round(100 * float64(known) / float64(all)))
	}
	for _, m := range l.Marks[max(0, len(l.Marks)-mostMarks):] {
		v.LastMark = append(v.LastMark, markView{m, s.writeOf(m)})
	}
	v.Plot = plotOf(v, s.Cluster.Now)
	return v
}

// idsAt makes texts for the attribute id of what begins at a time. They stay the same when something
// else is found out about the time before it.
type idsAt struct {
	from time.Time
	used map[string]bool
}

func (i idsAt) next(prefix string, at time.Time) string {
	id := fmt.Sprintf("%s-%d", prefix, at.Sub(i.from).Microseconds())
	for i.used[id] {
		id += "-next"
	}
	i.used[id] = true
	return id
}

func tookText(d time.Duration) string { return took(d) }

func isSame(a, b life.Interval) bool {
	return a.From.Equal(b.From) && a.To.Equal(b.To) && a.Lane == b.Lane && a.What == b.What
}
