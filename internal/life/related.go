package life

import (
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// mostPods bounds how many pods of a volume have phases of their own.
const mostPods = 50

// volume are the objects of one life. Each may be missing: its identity is the zero value.
type volume struct {
	claim, pv    identity
	attachments  []identity
	pods         []identity
	snapshots    []snapshotPair
	marks        map[identity][]Mark
	claimObject  *corev1.PersistentVolumeClaim
	volumeObject *corev1.PersistentVolume
}

// snapshotPair is a snapshot with its content.
type snapshotPair struct{ snapshot, content identity }

// subjects returns the claims, volumes or snapshots whose lives an object belongs to.
func (h *History) subjects(ref explain.Ref) (all []explain.Ref) {
	last := h.last(h.named(ref))
	if last == nil {
		return nil
	}
	switch o := last.Object.(type) {
	case *corev1.PersistentVolumeClaim:
		return []explain.Ref{ref}
	case *corev1.PersistentVolume:
		return []explain.Ref{h.ofVolume(o)}
	case *storagev1.VolumeAttachment:
		if name := o.Spec.Source.PersistentVolumeName; name != nil {
			return h.known(explain.Ref{Kind: explain.Volume, Name: *name})
		}
	case *corev1.Pod:
		for _, name := range protection.ClaimNames(o) {
			claim := explain.Ref{Kind: explain.Claim, Namespace: o.Namespace, Name: name}
			if h.Last(claim) >= 0 && !slices.Contains(all, claim) {
				all = append(all, claim)
			}
		}
	case *snapshotv1.VolumeSnapshot:
		if source := o.Spec.Source.PersistentVolumeClaimName; source != nil {
			return h.known(explain.Ref{Kind: explain.Claim, Namespace: o.Namespace, Name: *source})
		}
	}
	return all
}

// known returns the subject that a claim or a volume belongs to; none if the source does not have
// the object.
func (h *History) known(ref explain.Ref) []explain.Ref {
	last := h.last(h.named(ref))
	if last == nil {
		return nil
	}
	if pv, ok := last.Object.(*corev1.PersistentVolume); ok {
		return []explain.Ref{h.ofVolume(pv)}
	}
	return []explain.Ref{ref}
}

// ofVolume returns the claim of a volume; the volume itself if the source does not have the claim.
func (h *History) ofVolume(pv *corev1.PersistentVolume) explain.Ref {
	if of := pv.Spec.ClaimRef; of != nil {
		claim := explain.Ref{Kind: explain.Claim, Namespace: of.Namespace, Name: of.Name}
		if last := h.last(h.named(claim)); last != nil && (of.UID == "" || last.Object.GetUID() == of.UID) {
			return claim
		}
	}
	return explain.Ref{Kind: explain.Volume, Name: pv.Name}
}

// gather finds the objects of a life.
func (h *History) gather(subject explain.Ref) *volume {
	v := &volume{marks: map[identity][]Mark{}}
	switch subject.Kind {
	case explain.Claim:
		last := h.last(h.named(subject))
		if last == nil {
			return v
		}
		claim, ok := last.Object.(*corev1.PersistentVolumeClaim)
		if !ok {
			return v
		}
		v.claim, v.claimObject = identityOf(*last), claim
		v.pv = h.volumeOf(claim)
	default:
		v.pv = h.named(subject)
	}
	if last := h.last(v.pv); last != nil {
		v.volumeObject, _ = last.Object.(*corev1.PersistentVolume)
	}
	if v.volumeObject != nil {
		named := h.relatives(attachmentsOfVolume, "", v.volumeObject.Name)
		v.attachments = h.identities(named, func(c Change) bool {
			va, ok := c.Object.(*storagev1.VolumeAttachment)
			return ok && deref(va.Spec.Source.PersistentVolumeName) == v.volumeObject.Name
		})
	}
	h.mark(v, v.claim, v.pv)
	h.mark(v, v.attachments...)
	if v.claimObject != nil {
		h.gatherUsers(v)
	}
	return v
}

func (h *History) mark(v *volume, objects ...identity) {
	for _, id := range objects {
		if id != (identity{}) {
			v.marks[id] = h.marks(id)
		}
	}
}

// volumeOf returns the volume that was bound to the claim; the zero value if none was.
func (h *History) volumeOf(claim *corev1.PersistentVolumeClaim) identity {
	named := slices.Clone(h.relatives(volumesOfClaim, claim.Namespace, claim.Name))
	of := h.names[explain.Ref{Kind: explain.Volume, Name: claim.Spec.VolumeName}]
	if of != nil && !slices.Contains(named, of) {
		named = append(named, of)
	}
	all := h.identities(named, func(c Change) bool {
		pv, ok := c.Object.(*corev1.PersistentVolume)
		if !ok {
			return false
		}
		of := pv.Spec.ClaimRef
		isOf := of != nil && of.Namespace == claim.Namespace && of.Name == claim.Name &&
			(of.UID == "" || claim.UID == "" || of.UID == claim.UID)
		return isOf || claim.Spec.VolumeName != "" && pv.Name == claim.Spec.VolumeName && of == nil
	})
	if len(all) == 0 {
		return identity{}
	}
	return all[len(all)-1]
}

// gatherUsers finds the pods that name the claim while it exists, and its snapshots.
func (h *History) gatherUsers(v *volume) {
	claim := v.claimObject
	gone, isGone := find(v.marks[v.claim], Gone)
	pods := h.identities(h.relatives(podsOfClaim, claim.Namespace, claim.Name), func(c Change) bool {
		pod, ok := c.Object.(*corev1.Pod)
		return ok && pod.Namespace == claim.Namespace && slices.Contains(protection.ClaimNames(pod), claim.Name)
	})
	for _, id := range pods {
		marks := h.marks(id)
		ended, hasEnded := find(marks, Gone)
		created, _ := find(marks, Created)
		if hasEnded && ended.At.Before(claim.CreationTimestamp.Time) || isGone && created.At.After(gone.At) {
			continue // it used another claim of the same name
		}
		v.pods, v.marks[id] = append(v.pods, id), marks
	}
	if len(v.pods) > mostPods {
		v.pods = v.pods[len(v.pods)-mostPods:]
	}
	named := h.relatives(snapshotsOfClaim, claim.Namespace, claim.Name)
	snapshots := h.identities(named, func(c Change) bool {
		s, ok := c.Object.(*snapshotv1.VolumeSnapshot)
		return ok && s.Namespace == claim.Namespace && deref(s.Spec.Source.PersistentVolumeClaimName) == claim.Name
	})
	for _, id := range snapshots {
		pair := snapshotPair{id, h.contentOf(id.uid)}
		v.snapshots = append(v.snapshots, pair)
		h.mark(v, pair.snapshot, pair.content)
	}
}

func (h *History) contentOf(snapshot types.UID) identity {
	all := h.identities(h.relatives(contentsOfUID, "", string(snapshot)), func(c Change) bool {
		content, ok := c.Object.(*snapshotv1.VolumeSnapshotContent)
		return ok && content.Spec.VolumeSnapshotRef.UID == snapshot
	})
	if len(all) == 0 {
		return identity{}
	}
	return all[0]
}

// find returns the first mark of a step.
func find(marks []Mark, step Step) (Mark, bool) {
	i := slices.IndexFunc(marks, func(m Mark) bool { return m.Step == step })
	if i < 0 {
		return Mark{}, false
	}
	return marks[i], true
}

// path returns the marks of objects between two times in order, without the first time itself.
func (v *volume) path(from, to time.Time, objects ...identity) (all []Mark) {
	for _, id := range objects {
		for _, m := range v.marks[id] {
			if m.cuts && m.At.After(from) && !m.At.After(to) {
				all = append(all, m)
			}
		}
	}
	sortMarks(all)
	return all
}
