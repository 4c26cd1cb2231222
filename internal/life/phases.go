package life

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/size"
)

// builder derives the phases of one life.
type builder struct {
	*History
	volume  *volume
	life    *Life
	stateOf StateFunc // of the objects that explanations of the life look at; nil for a dump
	brief   bool      // the interval in question is too short for more than the related objects
	wide    int       // states with all objects that a scheduler looks at, of a large source
}

// span is the time and the objects of a phase.
type span struct {
	kind     PhaseKind
	name     string
	object   explain.Ref
	from, to time.Time
	open     bool
	path     []identity    // of objects whose marks cut the phase
	focus    []explain.Ref // objects to explain: the first that exists at a time
}

// add appends the phase of a span, unless it has no length and has ended.
func (b *builder) add(s span) {
	if s.to.Before(s.from) {
		s.to = s.from
	}
	p := Phase{Kind: s.kind, Name: s.name, Object: s.object, From: s.from, To: s.to, Open: s.open}
	p.Intervals = b.intervals(s)
	b.life.Phases = append(b.life.Phases, p)
}

// until returns the end of a phase that began at a time: that of the first of the marks, else the
// end of the source, at which the phase is open.
func (b *builder) until(from time.Time, marks ...Mark) (to time.Time, open bool) {
	to, open = b.end(), true
	for _, m := range marks {
		if !m.At.IsZero() && !m.At.Before(from) && !m.At.After(to) {
			to, open = m.At, false
		}
	}
	return to, open
}

// main adds the creation, the use and the deletion.
func (b *builder) main() {
	v, l := b.volume, b.life
	claim, subject := v.marks[v.claim], l.Object
	deleted, hasDeleted := find(claim, Deleted)
	gone, _ := find(claim, Gone)
	if v.claim == (identity{}) { // the claim is gone, and was not recorded
		b.deletion(v.released())
		return
	}
	first, mounted := b.firstPod()
	bound := b.bound()
	to, open := b.until(l.From, mounted, deleted, gone)
	name := "created to mounted"
	isUsed := first != (identity{})
	if !isUsed {
		to, open = b.until(l.From, bound, deleted, gone)
		name = "created to bound"
	}
	path := slices.Concat([]identity{v.claim, v.pv}, v.attachments)
	focus := []explain.Ref{}
	if isUsed {
		path = append(path, first)
		focus = append(focus, first.Ref)
	}
	b.add(span{
		kind: Creation, name: name, object: subject, from: l.From, to: to, open: open, path: path,
		focus: append(focus, subject),
	})
	if hasDeleted {
		b.use(to, deleted.At)
		b.deletion(deleted)
		return
	}
	if !open {
		b.use(to, b.end())
	}
	if !gone.At.IsZero() { // deleted before a watch saw the deletion
		b.deletion(gone)
	}
}

// released returns the time at which a volume lost its claim, as far as the volume tells.
func (v *volume) released() Mark {
	for _, m := range v.marks[v.pv] {
		if m.Step == Phased && v.volumeObject.Status.Phase == corev1.VolumeReleased {
			return m
		}
	}
	created, _ := find(v.marks[v.pv], Created)
	return created
}

// bound is when the claim was bound: its own mark, else that of the volume.
func (b *builder) bound() Mark {
	if m, ok := find(b.volume.marks[b.volume.claim], Bound); ok {
		return m
	}
	for _, m := range b.volume.marks[b.volume.pv] {
		if m.Step == Phased && m.What == "the volume is Bound" {
			return m
		}
	}
	return Mark{}
}

// firstPod returns the pod whose volumes were mounted first, with the mark of that; else the first
// pod.
func (b *builder) firstPod() (first identity, mounted Mark) {
	for _, pod := range b.volume.pods {
		m, ok := find(b.volume.marks[pod], Mounted)
		if ok && !m.At.Before(b.life.From) && (mounted.At.IsZero() || m.At.Before(mounted.At)) {
			first, mounted = pod, m
		}
	}
	if first == (identity{}) && len(b.volume.pods) > 0 {
		first = b.volume.pods[0]
	}
	return first, mounted
}

// use adds the phase in which the volume can be used, in intervals by the number of pods that do.
func (b *builder) use(from, to time.Time) {
	if !to.After(from) {
		return
	}
	type turn struct {
		at    time.Time
		delta int
		mark  *Mark
	}
	var turns []turn
	for _, pod := range b.volume.pods {
		mounted, ok := find(b.volume.marks[pod], Mounted)
		if !ok {
			continue
		}
		turns = append(turns, turn{mounted.At, 1, &mounted})
		for _, step := range []Step{Ended, Gone} {
			if m, ok := find(b.volume.marks[pod], step); ok {
				turns = append(turns, turn{m.At, -1, &m})
				break
			}
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	p := Phase{Kind: Use, Name: "in use", Object: b.life.Object, From: from, To: to, Open: to.Equal(b.end())}
	users, at := 0, from
	note := func(until time.Time, ends *Mark) {
		if until.After(at) {
			p.Intervals = append(p.Intervals, Interval{
				From: at, To: until, Lane: User, State: Used, What: usersText(users), Ends: ends,
			})
			at = until
		}
	}
	for _, t := range turns {
		if t.at.Before(to) {
			note(t.at, t.mark)
		}
		if !t.at.After(to) {
			users += t.delta
		}
	}
	note(to, nil)
	b.life.Phases = append(b.life.Phases, p)
}

// deletion adds the phase from the deletion of the claim to the end of the last object of the
// volume.
func (b *builder) deletion(begin Mark) {
	v := b.volume
	gone, isGone := find(v.marks[v.claim], Gone)
	focus := []explain.Ref{b.life.Object}
	if v.pv != (identity{}) && (v.isDeletedWithClaim() || v.claim == identity{}) {
		gone, isGone = find(v.marks[v.pv], Gone)
		focus = append(focus, explain.Ref{Kind: explain.Volume, Name: v.volumeObject.Name})
	}
	to, open := b.until(begin.At, gone)
	if isGone {
		b.life.To = &to
	}
	b.add(span{
		kind: Deletion, name: "deleted to gone", object: b.life.Object, from: begin.At, to: to, open: open,
		path: slices.Concat([]identity{v.claim, v.pv}, v.attachments, v.pods), focus: focus,
	})
}

// users adds the start of each pod after the first, and the stop of each pod.
func (b *builder) users() {
	first, _ := b.firstPod()
	for _, id := range b.volume.pods {
		pod, isPod := b.last(id).Object.(*corev1.Pod)
		if !isPod {
			continue
		}
		marks, ref := b.volume.marks[id], id.Ref
		created, _ := find(marks, Created)
		mounted, _ := find(marks, Mounted)
		deleted, isDeleted := find(marks, Deleted)
		gone, _ := find(marks, Gone)
		attachments := b.attachmentsOn(pod.Spec.NodeName)
		if id != first {
			to, open := b.until(created.At, mounted, deleted, gone)
			b.add(span{
				kind: Start, name: "pod " + pod.Name + ": created to mounted", object: ref, from: created.At, to: to,
				open: open, path: append(attachments, id), focus: []explain.Ref{ref},
			})
		}
		if !isDeleted {
			continue
		}
		end := gone
		focus := []explain.Ref{ref}
		for _, va := range attachments {
			if m, ok := find(b.volume.marks[va], Gone); ok && m.At.After(gone.At) {
				end, focus = m, append(focus, m.Object)
			}
		}
		to, open := b.until(deleted.At, end)
		b.add(span{
			kind: Stop, name: "pod " + pod.Name + ": deleted to detached", object: ref, from: deleted.At, to: to,
			open: open, path: append(attachments, id), focus: focus,
		})
	}
}

func (b *builder) attachmentsOn(node string) (all []identity) {
	for _, id := range b.volume.attachments {
		if va, ok := b.last(id).Object.(*storagev1.VolumeAttachment); ok && va.Spec.NodeName == node {
			all = append(all, id)
		}
	}
	return all
}

// expansions adds the expansions and the changes of attributes that were asked for.
func (b *builder) expansions() {
	v := b.volume
	marks := v.marks[v.claim]
	for i, m := range marks {
		kind, reached, name := Expansion, SizeReached, "expansion"
		switch m.Step {
		case SizeAsked:
		case ClassAsked:
			kind, reached, name = Modification, ClassReached, "change of attributes"
		default:
			continue
		}
		deleted, _ := find(marks, Deleted)
		done, _ := find(marks[i+1:], reached)
		to, open := b.until(m.At, done, deleted)
		b.add(span{
			kind: kind, name: name + ": " + m.What, object: b.life.Object, from: m.At, to: to, open: open,
			path: []identity{v.claim, v.pv}, focus: []explain.Ref{b.life.Object},
		})
	}
	b.openExpansion(marks)
}

// openExpansion adds an expansion that is under way in a source that does not have its begin.
func (b *builder) openExpansion(marks []Mark) {
	claim := b.volume.claimObject
	if claim == nil || claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil ||
		slices.ContainsFunc(b.life.Phases, func(p Phase) bool { return p.Kind == Expansion && p.Open }) {
		return
	}
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	begin, ok := find(marks, ConditionSet)
	if size.Compare(asked, has) <= 0 || !ok {
		return
	}
	b.add(span{
		kind: Expansion, name: "expansion to " + asked.String(), object: b.life.Object, from: begin.At, to: b.end(),
		open: true, path: []identity{b.volume.claim, b.volume.pv}, focus: []explain.Ref{b.life.Object},
	})
}

// snapshots adds the creation and the deletion of each snapshot of the claim.
func (b *builder) snapshots() {
	for _, s := range b.volume.snapshots {
		marks, ref := b.volume.marks[s.snapshot], s.snapshot.Ref
		created, _ := find(marks, Created)
		ready, _ := find(marks, Ready)
		deleted, isDeleted := find(marks, Deleted)
		gone, _ := find(marks, Gone)
		path, focus := []identity{s.snapshot, s.content}, []explain.Ref{ref}
		to, open := b.until(created.At, ready, deleted, gone)
		b.add(span{
			kind: Snapshotting, name: "snapshot " + ref.Name + ": created to ready", object: ref, from: created.At,
			to: to, open: open, path: path, focus: focus,
		})
		if !isDeleted {
			continue
		}
		if m, ok := find(b.volume.marks[s.content], Gone); ok {
			gone = m
			focus = append(focus, m.Object)
		}
		to, open = b.until(deleted.At, gone)
		b.add(span{
			kind: Unsnapshot, name: "snapshot " + ref.Name + ": deleted to gone", object: ref, from: deleted.At, to: to,
			open: open, path: path, focus: focus,
		})
	}
}
