package sim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// Actions of users, administrators and the scheduler on claims and volumes.

func size(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

// A claim that is not like the others.

func withoutClass(claim *corev1.PersistentVolumeClaim) { claim.Spec.StorageClassName = nil }

func naming(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = volume }
}

// volume creates a static PersistentVolume with the reclaim policy Retain.
func (u *user) volume(name string, edits ...func(*corev1.PersistentVolume)) {
	u.world.log("administrator creates volume %s", name)
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: className, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size("1Gi"),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: u.world.driver.Adopt(name)}},
		},
	}
	u.world.interventions.add(u.world.interventions.mayRemain, name) // its storage stays when it is deleted
	for _, edit := range edits {
		edit(pv)
	}
	u.try(func() error { return u.api.Create(u.world.ctx, pv.DeepCopy()) })
}

func holding(much string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = size(much) }
}

func deletedWithClaim(pv *corev1.PersistentVolume) {
	pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
}

// madeBefore marks a volume that was provisioned for a deleted claim and that an administrator
// released for reuse, so it has data.
func madeBefore(pv *corev1.PersistentVolume) {
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, names.AnnProvisionedBy, driverName)
}

// reusedBy annotates which claim gets the volume after its claim is deleted (8.14, 8.15).
func reusedBy(who string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&pv.ObjectMeta, names.AnnReuse, who) }
}

func reserved(claim string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claimNamespace, Name: claim}
	}
}

// defaultClass creates a default StorageClass.
func (u *user) defaultClass() {
	u.try(func() error {
		return u.api.Create(u.world.ctx, &storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: className, Annotations: map[string]string{names.AnnDefaultStorageClass: "true"}},
			Provisioner: driverName,
		})
	})
}

// giveBack clears spec.claimRef of all released volumes, as an administrator does to offer them
// again (8.1).
func (u *user) giveBack() {
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		if pv.Status.Phase != corev1.VolumeReleased {
			continue
		}
		u.world.log("administrator gives volume %s back", pv.Name)
		u.try(func() error {
			now := &corev1.PersistentVolume{}
			if err := u.api.Get(u.world.ctx, client.ObjectKeyFromObject(pv), now); err != nil {
				return err
			}
			now.Spec.ClaimRef = nil
			delete(now.Annotations, names.AnnBoundByController)
			return u.api.Update(u.world.ctx, now)
		})
	}
}

// untilReleasedAndHeld brings a volume to where it has been released for 15 seconds and is not
// deleted, since it is attached. No call for it is in flight.
func (u *user) untilReleasedAndHeld() {
	u.claim("a")
	u.untilBound("a")
	if c := u.get("a"); c != nil && c.DeletionTimestamp == nil { // no pod starts with a claim that is being deleted
		u.attach()
	}
	u.pause(100 * time.Millisecond)
	u.deleteClaim("a")
	u.pause(15 * time.Second)
}

// goOn detaches the volume, so that only the claim that has it now blocks its deletion, and then
// deletes that claim.
func (u *user) goOn(claim string) {
	u.detach()
	u.pause(5 * time.Second)
	u.untilBound(claim)
	u.deleteClaim(claim)
	u.untilNoVolumes()
}

// volumeName returns the name of the first volume; empty if there is none.
func (u *user) volumeName() string {
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		return pv.Name
	}
	return ""
}

// give writes a claim's uid into spec.claimRef of the released volume that it names, as the event
// ClaimMisbound asks an administrator to.
func (u *user) give(claim string) {
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		c := u.get(claim)
		if pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil || c == nil || c.Spec.VolumeName != pv.Name {
			continue
		}
		u.world.log("administrator gives volume %s to claim %s", pv.Name, claim)
		patch := fmt.Appendf(nil, `{"spec":{"claimRef":{"name":%q,"uid":%q}}}`, claim, c.UID)
		u.try(func() error { return u.api.Patch(u.world.ctx, pv, client.RawPatch(types.MergePatchType, patch)) })
	}
}

// forceAway deletes a PersistentVolume and removes its finalizers, although it is in use.
func (u *user) forceAway(name string) {
	u.step()
	u.world.log("administrator forces volume %s away", name)
	u.world.interventions.add(u.world.interventions.forceDeleted, name)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_ = u.api.Delete(u.world.ctx, pv)
	_ = u.api.Patch(u.world.ctx, pv, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

// restore creates the PersistentVolume of a Lost claim again.
func (u *user) restore(name, claim string) {
	if c := u.get(claim); c != nil {
		u.volume(name, reserved(claim), func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = c.UID })
	}
}

// copyFor creates a copy of a claim's volume whose claimRef has another claim's name and the old
// uid.
func (u *user) copyFor(claim, other string) {
	if c := u.get(claim); c != nil {
		u.volume("copy", reserved(other), func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = c.UID })
	}
}

// touch writes an annotation that no controller reads.
func (u *user) touch(claim string) {
	u.try(func() error {
		c := u.get(claim)
		if c == nil {
			return nil
		}
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, "touched", "by "+claim)
		return u.api.Update(u.world.ctx, c)
	})
}

// place binds a static volume to a claim as the scheduler does: it writes spec.claimRef and leaves
// the rest of the binding to the PV controller.
func (u *user) place(claim, volume string) {
	u.world.log("the scheduler takes volume %s for claim %s", volume, claim)
	u.try(func() error {
		c, pv := u.get(claim), &corev1.PersistentVolume{}
		if err := u.api.Get(u.world.ctx, client.ObjectKey{Name: volume}, pv); err != nil || c == nil || pv.Spec.ClaimRef != nil {
			return err
		}
		reserved(claim)(pv)
		pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = c.UID, c.ResourceVersion
		metav1.SetMetaDataAnnotation(&pv.ObjectMeta, names.AnnBoundByController, "yes")
		return u.api.Update(u.world.ctx, pv)
	})
}

// pod creates a pod that runs on a node and uses a claim. It does nothing if the claim is being
// deleted, since no scheduler or kubelet starts such a pod.
func (u *user) pod(name, claim string) {
	if c := u.get(claim); c == nil || c.DeletionTimestamp != nil {
		return
	}
	u.world.log("pod %s uses claim %s", name, claim)
	u.try(func() error {
		return u.api.Create(u.world.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name},
			Spec: corev1.PodSpec{NodeName: "node", Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}}},
		})
	})
}

func (u *user) endPods() {
	u.world.log("the pods end")
	for _, pod := range apiserver.Objects(u.world.server, &corev1.Pod{}) {
		_ = u.api.Delete(u.world.ctx, pod)
	}
}

// untilNoClaims waits until all claims are gone.
func (u *user) untilNoClaims() {
	u.until(func() bool { return len(apiserver.Objects(u.world.server, &corev1.PersistentVolumeClaim{})) == 0 })
}

// untilPhase waits until the volume has the phase or does not exist.
func (u *user) untilPhase(name string, phase corev1.PersistentVolumePhase) {
	u.until(func() bool {
		pv := &corev1.PersistentVolume{}
		err := u.api.Get(u.world.ctx, client.ObjectKey{Name: name}, pv)
		return err != nil || pv.Status.Phase == phase
	})
}

// atOnce waits so briefly that no watch has delivered the last change.
func (u *user) atOnce() { time.Sleep(170 * time.Microsecond) }

// setPolicy sets the reclaim policy of all volumes. It does not set Retain on a volume that is released
// already, for which it is too late (D-31).
func (u *user) setPolicy(policy corev1.PersistentVolumeReclaimPolicy) {
	u.world.interventions.policyChanged = true
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		if policy == corev1.PersistentVolumeReclaimRetain && pv.Status.Phase == corev1.VolumeReleased {
			continue
		}
		u.world.log("administrator sets the policy of volume %s to %s", pv.Name, policy)
		patch := fmt.Appendf(nil, `{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy)
		u.try(func() error { return u.api.Patch(u.world.ctx, pv, client.RawPatch(types.MergePatchType, patch)) })
	}
}
