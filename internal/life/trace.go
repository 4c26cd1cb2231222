package life

import (
	"slices"
	"time"
)

// TraceFile is the JSON form of a trace that ui.perfetto.dev and chrome://tracing read: the Trace
// Event Format.
type TraceFile struct {
	Unit   string       `json:"displayTimeUnit"`
	Events []TraceEvent `json:"traceEvents"`
}

// TraceEvent is one event of a trace. Times are in microseconds.
type TraceEvent struct {
	Name     string            `json:"name"`
	Phase    string            `json:"ph"` // X: a slice; i: an instant; M: the name of a process or a thread
	Category string            `json:"cat,omitempty"`
	Time     int64             `json:"ts"`
	Took     int64             `json:"dur,omitempty"`
	Process  int               `json:"pid"` // a life
	Thread   int               `json:"tid"` // 0: the phases; from 1 on the lanes
	Scope    string            `json:"s,omitempty"`
	Args     map[string]string `json:"args,omitempty"`
}

// Trace returns lives as a trace: a process for each life, and in it a thread for the phases and
// one for each lane.
func Trace(lives []Life) TraceFile {
	t := TraceFile{Unit: "ms", Events: []TraceEvent{}}
	for n, l := range lives {
		pid := n + 1
		t.name("process_name", pid, 0, l.Object.String())
		t.name("thread_name", pid, 0, "phases")
		for i, lane := range Lanes {
			t.name("thread_name", pid, i+1, string(lane))
		}
		t.name("thread_name", pid, len(Lanes)+1, "not known")
		for _, p := range l.Phases {
			t.slice(TraceEvent{Name: p.Name, Category: string(p.Kind), Process: pid}, p.From, p.To)
			for _, i := range p.Intervals {
				args := map[string]string{"state": string(i.State)}
				if i.Reason != "" {
					args["reason"] = string(i.Reason)
				}
				t.slice(TraceEvent{
					Name: i.What, Category: string(i.State), Process: pid, Thread: thread(i.Lane), Args: args,
				}, i.From, i.To)
			}
		}
		for _, m := range l.Marks {
			t.Events = append(t.Events, TraceEvent{
				Name: m.What, Phase: "i", Category: string(m.Step), Time: m.At.UnixMicro(), Process: pid,
				Thread: thread(m.Lane), Scope: "t", Args: map[string]string{"object": m.Object.String()},
			})
		}
	}
	return t
}

func thread(lane Lane) int {
	if i := slices.Index(Lanes, lane); i >= 0 {
		return i + 1
	}
	return len(Lanes) + 1
}

func (t *TraceFile) name(what string, pid, tid int, name string) {
	t.Events = append(t.Events, TraceEvent{
		Name: what, Phase: "M", Process: pid, Thread: tid, Args: map[string]string{"name": name},
	})
}

func (t *TraceFile) slice(e TraceEvent, from, to time.Time) {
	e.Phase, e.Time, e.Took = "X", from.UnixMicro(), max(to.Sub(from).Microseconds(), 1)
	t.Events = append(t.Events, e)
}
