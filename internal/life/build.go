package life

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// Lives returns the lives that an object belongs to: that of a claim, of the claims of a pod, of
// the claim of a volume, an attachment or a snapshot. It returns none where the source does not
// have the object.
func (h *History) Lives(ref explain.Ref) (all []Life) {
	defer h.locked()()
	for _, subject := range h.subjects(ref) {
		all = append(all, h.life(subject))
	}
	return all
}

func (h *History) life(subject explain.Ref) Life {
	v := h.gather(subject)
	l := Life{Object: subject, From: h.end()}
	if v.claimObject != nil {
		l.UID, l.Class = string(v.claimObject.UID), deref(v.claimObject.Spec.StorageClassName)
		l.From = v.claimObject.CreationTimestamp.Time
	}
	if pv := v.volumeObject; pv != nil {
		l.Volume = pv.Name
		l.UID = cmp.Or(l.UID, string(pv.UID))
		l.Class = cmp.Or(l.Class, pv.Spec.StorageClassName)
		if pv.Spec.CSI != nil {
			l.Handle, l.Driver = pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver
		}
		if v.claimObject == nil {
			l.From = pv.CreationTimestamp.Time
		}
	}
	l.Calls = h.callsOf(l)
	b := &builder{History: h, volume: v, life: &l}
	b.stateOf = b.narrowed(subject)
	if created, ok := find(v.marks[cmp.Or(v.claim, v.pv)], Created); ok {
		l.From = created.At
	}
	b.main()
	b.users()
	b.expansions()
	b.snapshots()
	b.finish()
	return l
}

// callsOf returns the calls about a volume: those that name its handle, its PersistentVolume, or
// its claim.
func (h *History) callsOf(l Life) (all []Call) {
	of := subject{
		objects: []string{l.Object.Namespace + "/" + l.Object.Name, l.Volume},
		volumes: []string{l.Handle, l.Volume, "pvc-" + l.UID},
	}
	for _, c := range h.Calls {
		if of.isOf(c) && !c.To.Before(l.From) {
			all = append(all, c)
		}
	}
	slices.SortStableFunc(all, func(a, b Call) int { return a.From.Compare(b.From) })
	return all
}

// finish completes a life from its phases.
func (b *builder) finish() {
	l, v := b.life, b.volume
	slices.SortStableFunc(l.Phases, func(a, b Phase) int { return a.From.Compare(b.From) })
	for _, id := range v.identities() {
		l.Marks = append(l.Marks, v.marks[id]...)
		l.Marks = append(l.Marks, b.eventMarks(id.Ref, l.From, b.end())...)
	}
	sortMarks(l.Marks)
	for i := range l.Phases {
		p := &l.Phases[i]
		p.Attributed = attributed(p.Intervals)
		for _, interval := range p.Intervals {
			if p.Kind != Use && interval.State != Used && (l.Slowest == nil || interval.Took() > l.Slowest.Took()) {
				l.Slowest = &interval
			}
		}
	}
	b.unknown()
}

// identities returns those of all objects of the life.
func (v *volume) identities() (all []identity) {
	all = slices.Concat([]identity{v.claim, v.pv}, v.attachments, v.pods)
	for _, s := range v.snapshots {
		all = append(all, s.snapshot, s.content)
	}
	return slices.DeleteFunc(all, func(id identity) bool { return id == identity{} })
}

// attributed returns the part of the time whose party or reason is known.
func attributed(intervals []Interval) float64 {
	var known, all time.Duration
	for _, i := range intervals {
		all += i.Took()
		if i.IsAttributed() {
			known += i.Took()
		}
	}
	if all == 0 {
		return 1
	}
	return float64(known) / float64(all)
}

// unknown says what the source does not tell.
func (b *builder) unknown() {
	l := b.life
	if b.States == nil {
		l.Unknown = append(l.Unknown, "a dump has the objects of one time: earlier times are those that objects name, "+
			"in whole seconds, and why a step lasted is known from events alone; purser record keeps each change")
	} else if l.From.Before(b.Begin) {
		l.Unknown = append(l.Unknown, fmt.Sprintf("the record begins at %s; earlier times are those that objects "+
			"name, in whole seconds", b.Begin.UTC().Format(time.RFC3339)))
	}
	if b.volume.claimObject != nil && b.volume.pv == (identity{}) && b.volume.claimObject.Spec.VolumeName != "" {
		l.Unknown = append(l.Unknown, "the input does not have the volume "+b.volume.claimObject.Spec.VolumeName)
	}
	if len(b.volume.pods) == mostPods {
		l.Unknown = append(l.Unknown, fmt.Sprintf("only the last %d pods are shown", mostPods))
	}
	for _, kind := range []explain.Kind{explain.Event, explain.Pod, explain.Volume, explain.Attachment} {
		if cause, unread := b.Final.Unread[kind]; unread {
			l.Unknown = append(l.Unknown, fmt.Sprintf("the input lacks objects of the kind %s: %s", kind, cause))
		}
	}
}

func deref(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// isDeletedWithClaim reports whether the volume is deleted when its claim is.
func (v *volume) isDeletedWithClaim() bool {
	return v.volumeObject != nil &&
		v.volumeObject.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
