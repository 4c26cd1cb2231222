package sim

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// end is the final state of a world, when nothing happens any more.
type end struct {
	*world
	claims  []*corev1.PersistentVolumeClaim
	volumes []*corev1.PersistentVolume
}

// now returns the state of the world.
func (w *world) now() end {
	return end{
		world: w, claims: apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}),
		volumes: apiserver.Objects(w.server, &corev1.PersistentVolume{}),
	}
}

// check checks the invariants at the end of a run. before is the number of writes at the time after
// which there should be none.
func (w *world) check(before int) {
	e := w.now()
	if w.operations.writes != before && !w.work.polls {
		w.violate("I5: %d writes after all was quiet", w.operations.writes-before)
	}
	if w.schedule.faultless() {
		e.budget()
	}
	if w.schedule.unseen() {
		e.once()
		e.known()
	}
	w.silences.atEnd()
	w.work.processSet.check(e)
}

// ofProvisioner checks the invariants of the provisioner.
func (e end) ofProvisioner() {
	e.noLeak()
	e.noDouble()
	e.noStuckFinalizer()
	e.served()
	e.recreatedStay()
	e.big()
	e.placed()
	e.resolved()
}

// noLeak is I1: every volume of the backend has a PersistentVolume, and the other way round. A
// volume with a journal entry for a claim that still wants it, and whose class was deleted, is not
// leaked.
func (e end) noLeak() {
	handles := map[string]string{}
	for _, pv := range e.volumes {
		if !ofDriver(pv) {
			continue
		}
		if other, ok := handles[pv.Spec.CSI.VolumeHandle]; ok && !e.work.shares {
			e.violate("I1: PersistentVolumes %s and %s are the same volume %s", other, pv.Name, pv.Spec.CSI.VolumeHandle)
		}
		handles[pv.Spec.CSI.VolumeHandle] = pv.Name
		if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && pv.Spec.ClaimRef != nil && !e.exists(pv.Spec.ClaimRef) {
			e.violate("I1: PersistentVolume %s is left, its claim is gone and its policy is Delete", pv.Name)
		}
	}
	for _, v := range e.driver.Volumes() {
		if handles[v.ID] == "" && !e.interventions.mayRemain[v.ID] && !e.awaited(v.Name) {
			e.violate("I1: volume %s (%s) leaked: no PersistentVolume names it", v.ID, v.Name)
		}
		delete(handles, v.ID)
	}
	for handle, name := range handles {
		e.violate("I1: PersistentVolume %s names volume %s, which is gone", name, handle)
	}
}

// exists reports whether the claim with this uid exists.
func (e end) exists(ref *corev1.ObjectReference) bool {
	return slices.ContainsFunc(e.claims, func(c *corev1.PersistentVolumeClaim) bool { return refersTo(ref, c) })
}

// refersTo reports whether a reference is to this claim, by name and uid. A reference that was
// copied by hand may have its uid and another name.
func refersTo(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref != nil && ref.UID == claim.UID && ref.Namespace == claim.Namespace && ref.Name == claim.Name
}

// noDouble is I2, and that no claim has two volumes.
func (e end) noDouble() {
	for _, claim := range e.claims {
		var own []string
		for _, pv := range e.volumes {
			if refersTo(pv.Spec.ClaimRef, claim) {
				own = append(own, pv.Name)
			}
		}
		if len(own) > 1 {
			e.violate("I1: claim %s has the volumes %v", claim.Name, own)
		}
		if bindCompleted(claim) && claim.Status.Phase != corev1.ClaimLost && !slices.Contains(own, claim.Spec.VolumeName) {
			e.violate("I2: claim %s is bound to %s, which is not for it", claim.Name, claim.Spec.VolumeName)
		}
	}
}

// noStuckFinalizer is I4: finalizers are removed, also from a volume that is retained.
func (e end) noStuckFinalizer() {
	for _, pv := range e.volumes {
		if !ofDriver(pv) {
			continue
		}
		ours := slices.Contains(pv.Finalizers, names.FinalizerVolume)
		if ours && pv.DeletionTimestamp != nil && !e.exists(pv.Spec.ClaimRef) {
			e.violate("I4: PersistentVolume %s is being deleted and has our finalizer", pv.Name)
		}
		if ours && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			e.violate("I4: PersistentVolume %s is kept and has our finalizer", pv.Name)
		}
		if !ours && pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && pv.Spec.ClaimRef != nil { // C-81
			e.violate("I4: PersistentVolume %s lacks our finalizer", pv.Name)
		}
	}
}

// budget is I6: one call of each kind for each volume, and nothing refused.
func (e end) budget() {
	for call, n := range e.operations.calls {
		if n != 1 && !e.work.repeated {
			e.violate("I6: %d times %s", n, call)
		}
	}
	for _, r := range e.operations.refused {
		if e.work.contested {
			break
		}
		e.violate("I6: refused: %s", r)
	}
}

// once is I6 with a frozen cache: a process does not create an object again that it has created,
// though no watch shows it.
func (e end) once() {
	for call, n := range e.operations.calls {
		if n > 1 && !e.work.repeated && strings.HasPrefix(call, "CreateVolume") {
			e.violate("I6: %d times %s, unseen", n, call)
		}
	}
}

// known is I6 for reads: a process does not read an object that it has created and no client has
// changed.
func (e end) known() {
	for _, read := range e.operations.needlessReads {
		e.violate("I6: %s", read)
	}
}

// served is the liveness half of I5: a claim whose class exists has its volume.
func (e end) served() {
	for _, claim := range e.claims {
		if e.hasClass(claim) && claim.DeletionTimestamp == nil && claim.Status.Phase != corev1.ClaimBound {
			e.violate("I5: claim %s has no volume", claim.Name)
		}
	}
}

// hasClass reports whether the class of a claim exists.
func (e end) hasClass(claim *corev1.PersistentVolumeClaim) bool {
	return e.server.Client().Get(e.ctx, client.ObjectKey{Name: objects.ClaimClass(claim)}, &storagev1.StorageClass{}) == nil
}

// recreatedStay is I9: an object that was created again under the same name is not treated as the
// old one.
func (e end) recreatedStay() {
	for _, want := range e.interventions.recreated {
		i := slices.IndexFunc(e.volumes, func(pv *corev1.PersistentVolume) bool { return pv.UID == want.UID })
		if i < 0 || e.volumes[i].DeletionTimestamp != nil {
			e.violate("I9: PersistentVolume %s was created again under this name, and deleted", want.Name)
			continue
		}
		now := e.volumes[i]
		if !e.interventions.policyChanged && now.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete && !slices.Contains(now.Finalizers, names.FinalizerVolume) {
			e.violate("I9: PersistentVolume %s was created again under this name, and lost our finalizer", want.Name)
		}
	}
}

// big is I10: a volume has at least the requested size.
func (e end) big() {
	for _, v := range e.driver.Volumes() {
		if v.Bytes < v.Request.GetCapacityRange().GetRequiredBytes() {
			e.violate("I10: volume %s is smaller than asked for", v.Name)
		}
	}
}

// resolved is I8: the journal has only entries of calls in flight.
func (e end) resolved() {
	if left := slices.DeleteFunc(e.journalEntries(), e.waits); len(left) > 0 {
		e.violate("I8: %d entries are never resolved", len(left))
	}
}

func (e end) journalEntries() (all []intent.Entry) {
	for _, lease := range apiserver.Objects(e.server, &coordinationv1.Lease{}) {
		entries, err := intent.Decode(lease.Annotations[names.AnnIntents])
		if err != nil {
			e.violate("I8: %v", err)
		}
		all = append(all, entries...)
	}
	return all
}

// awaited reports whether the journal has an entry of the volume for a claim that wants it.
func (e end) awaited(volume string) bool {
	return slices.ContainsFunc(e.journalEntries(), func(r intent.Entry) bool { return (r.VolumeName == volume || e.work.shares) && e.waits(r) })
}

// waits reports whether the claim of an entry still wants a volume: then the entry may stay after a
// refusal of the driver.
func (e end) waits(entry intent.Entry) bool {
	return slices.ContainsFunc(e.claims, func(c *corev1.PersistentVolumeClaim) bool {
		return c.UID == entry.UID && c.DeletionTimestamp == nil && c.Spec.VolumeName == ""
	})
}
