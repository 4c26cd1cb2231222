package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	rules "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// marked is C3: a choice of ours is marked as ours, since it may be taken back; one of a user is not.
func (e end) marked(m *continuous) {
	for _, pv := range e.volumes {
		owner := m.owner(pv)
		if owner == nil || !bindCompleted(owner) {
			continue
		}
		ours, marked := m.firstVolumes[pv.UID].Spec.ClaimRef == nil, pv.Annotations[names.AnnBoundByController] != ""
		if stays := pv.Annotations[names.AnnReuse] == names.ReuseSameName; !stays && ours != marked { // it is chosen once, and then reserved
			e.violate("C3: volume %s is bound, by our choice: %t, and marked so: %t", pv.Name, ours, marked)
		}
		if ours, marked := m.firstClaims[owner.UID].Spec.VolumeName == "", owner.Annotations[names.AnnBoundByController] != ""; ours != marked {
			e.violate("C3: claim %s is bound, by our choice: %t, and marked so: %t", owner.Name, ours, marked)
		}
	}
}

// noneLingers is I4 for the finalizers that protect: what is to go and is not in use is gone.
func (e end) noneLingers() {
	pods := apiserver.Objects(e.server, &corev1.Pod{})
	for _, claim := range e.claims {
		used := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return rules.Uses(p, claim) })
		if claim.DeletionTimestamp != nil && !used {
			e.violate("I4: claim %s is being deleted, and nothing uses it", claim.Name)
		}
		if claim.DeletionTimestamp == nil && !holds(claim) {
			e.violate("I4: claim %s is not protected", claim.Name)
		}
	}
	for _, pv := range e.volumes {
		if pv.DeletionTimestamp != nil && !e.exists(pv.Spec.ClaimRef) && slices.Contains(pv.Finalizers, names.FinalizerPVProtection) {
			e.violate("I4: volume %s is being deleted, and no claim has it", pv.Name)
		}
	}
}
