package sim

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	rules "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// continuous checks the invariants that must hold after each write. A check of the final state
// would miss them: a volume that was released too early is deleted by then.
type continuous struct {
	volumes map[string]*corev1.PersistentVolume
	claims  map[types.UID]*corev1.PersistentVolumeClaim
	pods    map[types.UID]*corev1.Pod
	// The objects as users created them.
	firstVolumes map[types.UID]*corev1.PersistentVolume
	firstClaims  map[types.UID]*corev1.PersistentVolumeClaim
	forceDeleted map[string]bool
	everReleased map[types.UID]bool // PersistentVolumes that were released at some time
	violate      func(format string, args ...any)
}

// throughout replays all writes of the run and checks the invariants after each.
func (e end) throughout() *continuous {
	m := &continuous{
		volumes: map[string]*corev1.PersistentVolume{}, claims: map[types.UID]*corev1.PersistentVolumeClaim{}, pods: map[types.UID]*corev1.Pod{},
		firstVolumes: map[types.UID]*corev1.PersistentVolume{}, firstClaims: map[types.UID]*corev1.PersistentVolumeClaim{},
		forceDeleted: e.interventions.forceDeleted, everReleased: map[types.UID]bool{}, violate: e.violate,
	}
	var all []apiserver.Event
	for _, kind := range []client.Object{&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{}} {
		all = append(all, e.server.History(kind, 0)...)
	}
	slices.SortFunc(all, func(a, b apiserver.Event) int { return cmp.Compare(a.At, b.At) })
	for _, change := range all {
		m.pass(change)
	}
	return m
}

func (m *continuous) pass(change apiserver.Event) {
	gone := change.Type == watch.Deleted
	switch o := change.Object.(type) {
	case *corev1.PersistentVolume:
		was := m.volumes[o.Name]
		if m.volumes[o.Name] = o; gone {
			delete(m.volumes, o.Name)
		}
		if was == nil {
			m.firstVolumes[o.UID] = o
			return
		}
		m.volumeChanged(was, o)
	case *corev1.PersistentVolumeClaim:
		was := m.claims[o.UID]
		if m.claims[o.UID] = o; gone {
			delete(m.claims, o.UID)
		}
		if was == nil {
			m.firstClaims[o.UID] = o
			return
		}
		m.claimChanged(was, o)
	case *corev1.Pod:
		if m.pods[o.UID] = o; gone {
			delete(m.pods, o.UID)
		}
	}
}

// owner is the very claim that the volume is for, if it is there.
func (m *continuous) owner(pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if claim := m.claims[uidOf(pv)]; claim != nil && refersTo(pv.Spec.ClaimRef, claim) {
		return claim
	}
	return nil
}

func (m *continuous) volumeChanged(was, is *corev1.PersistentVolume) {
	owner := m.owner(was)
	elsewhere := owner != nil && owner.Spec.VolumeName != "" && owner.Spec.VolumeName != is.Name
	lives := owner != nil && !elsewhere
	phaseChanged, mayLoseFinalizer := was.Status.Phase != is.Status.Phase, m.mayLoseFinalizer(was, is)
	switch {
	case phaseChanged && is.Status.Phase == corev1.VolumeReleased && lives:
		m.violate("I3: volume %s is released, and its claim %s is there", is.Name, owner.Name)
	case phaseChanged && is.Status.Phase == corev1.VolumeReleased && elsewhere && uidOf(m.firstVolumes[is.UID]) == "":
		m.violate("I3: volume %s is released, which was there before its claim %s, and which that never had", is.Name, owner.Name)
	case phaseChanged && is.Status.Phase == corev1.VolumeAvailable && uidOf(is) != "":
		m.violate("I2: volume %s is called available, and is for a claim", is.Name)
	case uidOf(was) != "" && uidOf(is) != uidOf(was) && lives:
		m.violate("I2: volume %s is taken from claim %s", is.Name, owner.Name)
	case lives && !mayLoseFinalizer && !m.forceDeleted[is.Name] &&
		slices.Contains(was.Finalizers, names.FinalizerPVProtection) && !slices.Contains(is.Finalizers, names.FinalizerPVProtection):
		m.violate("I10: volume %s loses its protection, and claim %s has it", is.Name, owner.Name)
	}
	if wasReleased(was) && was.Spec.ClaimRef != nil && !sameName(is.Spec.ClaimRef, was.Spec.ClaimRef) {
		m.firstVolumes[is.UID] = is // an administrator chose anew
	}
	if chosen := m.firstVolumes[is.UID].Spec.ClaimRef; chosen != nil && !wasReleased(was) {
		if !sameName(is.Spec.ClaimRef, chosen) {
			m.violate("I4: volume %s was reserved for claim %s, and is not any more", is.Name, chosen.Name)
		}
	}
}

func sameName(a, b *corev1.ObjectReference) bool {
	return a != nil && b != nil && a.Namespace == b.Namespace && a.Name == b.Name
}

// mayLoseFinalizer reports whether a volume needs no protection though a claim has it by now: it was
// released before, and still is, or has a finalizer of another controller.
func (m *continuous) mayLoseFinalizer(was, is *corev1.PersistentVolume) bool {
	if wasReleased(was) {
		m.everReleased[was.UID] = true
	}
	return wasReleased(was) || m.everReleased[was.UID] && len(is.Finalizers) > 0
}

func uidOf(pv *corev1.PersistentVolume) types.UID {
	if pv.Spec.ClaimRef == nil {
		return ""
	}
	return pv.Spec.ClaimRef.UID
}

// wasReleased reports whether the volume is no longer for its claim, so that an administrator may
// reserve it for another one.
func wasReleased(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed
}

func (m *continuous) claimChanged(was, is *corev1.PersistentVolumeClaim) {
	pv := m.volumes[is.Spec.VolumeName]
	mine := pv != nil && uidOf(pv) == is.UID
	phaseChanged := was.Status.Phase != is.Status.Phase
	switch {
	case !bindCompleted(was) && bindCompleted(is):
		m.completes(is, pv, mine)
	case phaseChanged && is.Status.Phase == corev1.ClaimBound && pv == nil && m.forceDeleted[is.Spec.VolumeName]: // as in completes
	case phaseChanged && is.Status.Phase == corev1.ClaimBound && !mine:
		m.violate("I2: claim %s is called bound, and volume %q is not its own", is.Name, is.Spec.VolumeName)
	case phaseChanged && is.Status.Phase == corev1.ClaimLost && mine && !m.forceDeleted[pv.Name]: // it was true a moment ago, and another object cannot be tested for
		m.violate("I2: claim %s is called lost, and has volume %s", is.Name, pv.Name)
	case phaseChanged && is.Status.Phase == corev1.ClaimPending:
		m.violate("I7: claim %s waits again", is.Name)
	}
	if !holds(was) || holds(is) {
		return
	}
	for _, pod := range m.pods {
		if rules.Uses(pod, is) {
			m.violate("I10: claim %s loses its protection, and pod %s uses it", is.Name, pod.Name)
		}
	}
}

// completes checks the write that sets the volume of a claim.
func (m *continuous) completes(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, mine bool) {
	switch {
	case claim.Spec.VolumeName == "":
		m.violate("I5: the binding of claim %s is complete without a volume", claim.Name)
	case pv == nil && m.forceDeleted[claim.Spec.VolumeName]: // it was its own a moment ago, and another object cannot be tested for
	case !mine:
		m.violate("I2: claim %s gets volume %s, which is not its own", claim.Name, claim.Spec.VolumeName)
	case m.firstVolumes[pv.UID].Spec.ClaimRef == nil && !covers(pv, claim):
		m.violate("I6: claim %s gets volume %s, which is not what it asks for", claim.Name, pv.Name)
	}
	for _, other := range m.claims {
		if other.UID != claim.UID && bindCompleted(other) && other.Spec.VolumeName == claim.Spec.VolumeName {
			m.violate("I1: claims %s and %s both have volume %s", claim.Name, other.Name, claim.Spec.VolumeName)
		}
	}
}

func bindCompleted(claim *corev1.PersistentVolumeClaim) bool {
	_, ok := claim.Annotations[names.AnnBindCompleted]
	return ok
}
