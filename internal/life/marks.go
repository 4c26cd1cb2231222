package life

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// initial are steps that are part of an object's creation if its first version has them.
var initial = []Step{SizeAsked, SizeReached, ClassAsked, ClassReached, Finalized}

// marks returns what happened to an object.
func (h *History) marks(of identity) (all []Mark) {
	var before []fact
	for n, i := range h.versions(of) {
		c := h.changes[i]
		now := factsOf(c.Object)
		switch {
		case c.At.IsZero(), c.Existed:
			all = append(all, ownTimes(c, now)...)
		case n == 0:
			all = append(all, marksOf(i, c, appeared(now, nil))...)
		default:
			all = append(all, marksOf(i, c, slices.Concat(appeared(now, before), disappeared(now, before)))...)
		}
		if c.Deleted {
			all = append(all, goneMark(i, c, all))
		}
		before = now
	}
	return all
}

// ownTimes returns the marks of an object of which no earlier version is known: those facts whose
// times the object names.
func ownTimes(c Change, now []fact) (all []Mark) {
	for _, f := range now {
		if !f.at.IsZero() {
			all = append(all, Mark{
				At: f.at, Lane: f.lane, Object: refOf(c), Step: f.step, What: f.what, Coarse: true, index: -1,
				cuts: f.cuts,
			})
		}
	}
	return all
}

// appeared returns the facts that hold now and did not before; of a new object those that its
// creation does not imply.
func appeared(now, before []fact) (all []fact) {
	had, steps := keysOf(before), map[Step]bool{}
	for _, b := range before {
		steps[b.step] = true
	}
	for _, f := range now {
		isImplied := slices.Contains(initial, f.step) &&
			(f.step != Finalized && !steps[f.step] || f.step == Finalized && before == nil)
		if !had[f.key()] && !isImplied {
			all = append(all, f)
		}
	}
	return all
}

// disappeared returns the ends of facts that held before, as facts.
func disappeared(now, before []fact) (all []fact) {
	has := keysOf(now)
	for _, f := range before {
		if f.undone != "" && !has[f.key()] {
			f.what, f.lane, f.cuts = f.undone, f.undoneLane, true
			if f.step == Attached {
				f.step = Ended
			}
			all = append(all, f)
		}
	}
	return all
}

func keysOf(facts []fact) map[string]bool {
	keys := make(map[string]bool, len(facts))
	for _, f := range facts {
		keys[f.key()] = true
	}
	return keys
}

func marksOf(i int, c Change, facts []fact) (all []Mark) {
	for _, f := range facts {
		lane := f.lane
		if f.step != Finalized && f.step != Deleted {
			lane = byManager(lane, c.By)
		}
		all = append(all, Mark{
			At: c.At, Lane: lane, Object: refOf(c), Step: f.step, What: f.what, By: c.By, Changed: c.Changed,
			Version: c.Object.GetResourceVersion(), index: i, cuts: f.cuts,
		})
	}
	return all
}

// goneLanes are the lanes of the controllers that take the last step of a deletion.
var goneLanes = map[explain.Kind]Lane{
	explain.Claim: Protection, explain.Volume: Provisioner, explain.Attachment: Attacher, explain.Pod: Node,
	explain.Snapshot: Snapshotter, explain.Content: Snapshotter,
}

// goneMark is the end of an object: the write that removed its last finalizer, if it had one.
func goneMark(i int, c Change, before []Mark) Mark {
	lane := goneLanes[c.Kind]
	if n := len(before); n > 0 && before[n-1].index == i && before[n-1].Step == Finalized {
		lane = before[n-1].Lane
	}
	return Mark{
		At: c.At, Lane: lane, Object: refOf(c), Step: Gone, What: nounOf(c.Object) + " is gone", By: c.By,
		Version: c.Object.GetResourceVersion(), index: i, cuts: true,
	}
}

// eventMarks returns the events about an object between two times; the newest of each that was
// repeated.
func (h *History) eventMarks(ref explain.Ref, from, to time.Time) (all []Mark) {
	newest := map[identity]int{}
	for _, i := range h.events[ref] {
		event, ok := h.changes[i].Object.(*corev1.Event)
		if !ok {
			continue
		}
		at := explain.EventTime(event)
		if !h.changes[i].At.IsZero() {
			at = h.changes[i].At
		}
		if at.Before(from) || at.After(to) {
			continue
		}
		mark := Mark{
			At: at, Object: ref, Step: Told, What: eventText(event), Coarse: h.changes[i].At.IsZero(), index: i,
			Lane: componentLane(cmp.Or(event.ReportingController, event.Source.Component), NoLane),
		}
		if last, seen := newest[identityOf(h.changes[i])]; seen && h.changes[i].At.IsZero() {
			all[last] = mark
			continue
		}
		newest[identityOf(h.changes[i])] = len(all)
		all = append(all, mark)
	}
	return all
}

func eventText(e *corev1.Event) string {
	text := e.Reason + ": " + e.Message
	count := e.Count
	if e.Series != nil {
		count = e.Series.Count
	}
	if count > 1 {
		text = fmt.Sprintf("%s (%d times)", text, count)
	}
	if e.Type == corev1.EventTypeWarning {
		text = warning + text
	}
	return text
}

// warning begins the text of a mark that is an event of the type Warning.
const warning = "warning "

func isWarning(m Mark) bool { return m.Step == Told && strings.HasPrefix(m.What, warning) }

// aboutOf returns the object that an event is about.
func aboutOf(o metav1.Object) (explain.Ref, bool) {
	event, ok := o.(*corev1.Event)
	if !ok {
		return explain.Ref{}, false
	}
	about := event.InvolvedObject
	return explain.Ref{Kind: explain.Kind(about.Kind), Namespace: about.Namespace, Name: about.Name}, true
}

// causal is the order of steps that have the same time, which is one second in an object's own
// times.
var causal = []Step{
	Created, ProvisionerOn, NodeSelected, Scheduled, Phased, Bound, ContentBound, Cut, Errored, Attached, Mounted,
	Ready, Deleted, Ended, Finalized, Gone,
}

// kindOrder is the order of objects of which each waits for the one before.
var kindOrder = []explain.Kind{
	explain.Claim, explain.Pod, explain.Volume, explain.Attachment, explain.Snapshot, explain.Content,
}

// sortMarks puts marks in order of time, and those of one time in the order in which they follow
// from each other.
func sortMarks(all []Mark) {
	slices.SortStableFunc(all, func(a, b Mark) int {
		if a.index >= 0 && b.index >= 0 && a.Step != Told && b.Step != Told {
			return cmp.Or(cmp.Compare(a.index, b.index), rank(a)-rank(b))
		}
		return cmp.Or(a.At.Compare(b.At), rank(a)-rank(b), kindRank(a)-kindRank(b))
	})
}

func rank(m Mark) int     { return slices.Index(causal, m.Step) }
func kindRank(m Mark) int { return slices.Index(kindOrder, m.Object.Kind) }
