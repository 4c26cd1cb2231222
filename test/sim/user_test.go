package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// user is a person with kubectl.
type user struct {
	world *world
	api   client.Client
	taken int // snapshots
}

// untilShareIsLeft deletes the last claim of a share after a new process has undone the calls of
// the previous one, and broken watches have healed.
func (u *user) untilShareIsLeft(claim string) {
	u.pause(healsAfter + 5*time.Second)
	u.deleteClaim(claim)
	u.untilNoVolumes()
}

// step waits between two actions of a user.
func (u *user) step() { time.Sleep(213 * time.Microsecond) }

func (u *user) pause(d time.Duration) { time.Sleep(d) }

// try retries a request that the API server may refuse at first.
func (u *user) try(what func() error) {
	for range 20 {
		u.step()
		if err := what(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
}

func (u *user) class(policy corev1.PersistentVolumeReclaimPolicy, mode storagev1.VolumeBindingMode) {
	u.try(func() error {
		return u.api.Create(u.world.ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName, ReclaimPolicy: &policy, VolumeBindingMode: &mode,
		})
	})
}

func (u *user) claim(name string, edits ...func(*corev1.PersistentVolumeClaim)) {
	u.world.log("user creates claim %s", name)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new(className), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")},
		},
	}
	for _, edit := range edits {
		edit(claim)
	}
	u.try(func() error { return u.api.Create(u.world.ctx, claim.DeepCopy()) })
}

func (u *user) get(name string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	if err := u.api.Get(u.world.ctx, client.ObjectKey{Namespace: claimNamespace, Name: name}, claim); err != nil {
		return nil
	}
	return claim
}

func (u *user) deleteClaim(name string) {
	u.step()
	u.world.log("user deletes claim %s", name)
	if claim := u.get(name); claim != nil {
		_ = u.api.Delete(u.world.ctx, claim)
	}
}

func (u *user) deleteVolumes() {
	u.step()
	u.world.log("user deletes the volumes")
	u.world.interventions.dropRecreated()
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		_ = u.api.Delete(u.world.ctx, pv)
	}
}

// keepVolumes is an administrator who wants what is still there, and has looked at the backend.
func (u *user) keepVolumes() {
	there := map[string]bool{}
	for _, v := range u.world.driver.Volumes() {
		there[v.ID] = true
	}
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		if !there[pv.Spec.CSI.VolumeHandle] {
			continue
		}
		u.world.log("administrator keeps volume %s", pv.Name)
		u.try(func() error {
			return u.api.Patch(u.world.ctx, pv, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)))
		})
	}
}

// selectNode is what the scheduler does for a pod.
func (u *user) selectNode(name string) {
	u.world.log("the scheduler selects a node for claim %s", name)
	u.try(func() error {
		claim := u.get(name)
		if claim == nil {
			return nil
		}
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnSelectedNode, "node")
		return u.api.Update(u.world.ctx, claim)
	})
}

// attach is what is done for a pod, which needs a claim that is bound.
func (u *user) attach() {
	for _, pv := range apiserver.Objects(u.world.server, &corev1.PersistentVolume{}) {
		if pv.Status.Phase != corev1.VolumeBound {
			continue
		}
		_ = u.api.Create(u.world.ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "csi-" + pv.Name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: driverName, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
			},
		})
	}
}

func (u *user) detach() {
	u.world.log("the volumes are detached")
	for _, a := range apiserver.Objects(u.world.server, &storagev1.VolumeAttachment{}) {
		_ = u.api.Delete(u.world.ctx, a)
	}
}

// untilBound waits for claims, as far as they exist.
func (u *user) untilBound(claims ...string) {
	u.until(func() bool {
		for _, name := range claims {
			if claim := u.get(name); claim != nil && claim.Status.Phase != corev1.ClaimBound {
				return false
			}
		}
		return true
	})
}

func (u *user) untilNoVolumes() {
	u.until(func() bool {
		return len(apiserver.Objects(u.world.server, &corev1.PersistentVolume{})) == 0
	})
}

func (u *user) until(done func() bool) {
	for began := time.Now(); time.Since(began) < patience && !done(); {
		time.Sleep(20*time.Millisecond + 3*time.Microsecond)
	}
}
