package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// ofControllers checks the invariants of the binder and the protection controllers.
func (e end) ofControllers() {
	m := e.throughout()
	e.noDouble()
	e.fixed()
	e.marked(m)
	e.noneLingers()
}

// ofBoth checks the invariants of the controllers and of the provisioner.
func (e end) ofBoth() {
	e.ofProvisioner()
	e.ofControllers()
}

// fixed checks that internal/binder/rules decides on no action for any pair in the final state, and that no
// claim waits for a provisioner.
func (e end) fixed() {
	for key := range e.keys() {
		s := e.snapshot(key)
		found := binding.Decide(s)
		if todo, ok := found.(verdict.Do[binding.Action]); ok {
			for _, action := range todo.Actions {
				if !isTalk(action) {
					e.violate("I5: there is %T left to do for %s: %s", action, key, todo.Because().Text())
				}
			}
			if found = todo; todo.Then != nil {
				found = todo.Then
			}
		}
		if why := found.Because().Reason; why == verdict.ExternalProvisioning || why == verdict.HandedOver {
			e.violate("I5: claim %s waits for a provisioner", key)
		}
	}
}

// isTalk reports whether an action is repeated in every reconcile and changes nothing.
func isTalk(action binding.Action) bool {
	_, tells := action.(binding.Tell)
	_, gives := action.(binding.HandOver)
	return tells || gives
}

// keys are the pairs, and the volumes without a claim.
func (e end) keys() map[binding.Key]bool {
	all := map[binding.Key]bool{}
	for _, claim := range e.claims {
		all[binding.Key{Claim: client.ObjectKeyFromObject(claim)}] = true
	}
	for _, pv := range e.volumes {
		all[binding.KeyOf(pv)] = true
	}
	return all
}

// snapshot returns the inputs of the decision about a key, found without any index.
func (e end) snapshot(key binding.Key) binding.Snapshot {
	s := binding.Snapshot{Key: key, ClaimAsked: true, VolumesAsked: true, InProcess: slices.Contains(e.work.processSet.ours, plane)}
	for _, pv := range e.volumes {
		if binding.KeyOf(pv) == key {
			s.Refs = append(s.Refs, pv)
		}
	}
	s.Claim = e.claim(key.Claim)
	if s.Claim == nil {
		return s
	}
	classes := apiserver.Objects(e.server, &storagev1.StorageClass{})
	s.Default = binding.DefaultClass(classes)
	if i := slices.IndexFunc(classes, func(c *storagev1.StorageClass) bool { return c.Name == objects.ClaimClass(s.Claim) }); i >= 0 {
		s.Class = classes[i]
	}
	for _, pv := range e.volumes {
		if pv.Name == s.Claim.Spec.VolumeName {
			s.Named = pv
		}
	}
	if binding.SeeksStatic(s.Claim, s.Class) && binding.Reserved(s) == nil {
		s.Offer = e.offer(s.Claim)
	}
	return s
}

func (e end) claim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(e.claims, func(c *corev1.PersistentVolumeClaim) bool { return client.ObjectKeyFromObject(c) == key })
	if i < 0 {
		return nil
	}
	return e.claims[i]
}

// offer returns a volume that could be bound to the claim.
func (e end) offer(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	i := slices.IndexFunc(e.volumes, func(pv *corev1.PersistentVolume) bool { return binding.Matchable(pv) && covers(pv, claim) })
	if i < 0 {
		return nil
	}
	return e.volumes[i]
}

// covers reports whether the volume matches the claim, for the fields that workloads use.
func covers(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	has, wants := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	lacks := slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(pv.Spec.AccessModes, m) })
	return has.Cmp(wants) >= 0 && !lacks && pv.Spec.StorageClassName == objects.ClaimClass(claim) && *pv.Spec.VolumeMode == *claim.Spec.VolumeMode
}
