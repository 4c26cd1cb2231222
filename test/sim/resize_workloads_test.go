package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

var resizeAlone = &processSet{
	ours: []role{csiResizer}, startOthers: startNode, check: end.ofResizer, disturb: askForMore,
	kinds: kindsOfResizer,
}

var kindsOfResizer = []client.Object{
	&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.VolumeAttributesClass{},
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// sized creates bound pairs of 1Gi. The finalizer keeps a volume that is deleted in the middle.
func sized(handles ...string) func(*user) {
	return func(u *user) {
		u.world.driver.Locks = true
		for _, name := range handles {
			u.world.driver.Adopt(name)
			u.world.driver.SetSize(name, 1<<30)
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name},
				Spec: corev1.PersistentVolumeClaimSpec{
					VolumeName: name, Resources: corev1.VolumeResourceRequirements{Requests: storage("1Gi")},
				},
			}
			_ = u.api.Create(u.world.ctx, claim)
			claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, storage("1Gi")
			_ = u.api.Status().Update(u.world.ctx, claim)
			_ = u.api.Create(u.world.ctx, &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"sim/keep"}},
				Spec: corev1.PersistentVolumeSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Capacity:    storage("1Gi"), ClaimRef: &corev1.ObjectReference{Namespace: claimNamespace, Name: name, UID: claim.UID},
					PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: name}},
				},
			})
		}
	}
}

// onNode has the node finish each expansion.
func onNode(setup func(*user)) func(*user) {
	return func(u *user) {
		u.world.expanding.onNode = true
		setup(u)
	}
}

// ask edits the size of a claim.
func (u *user) ask(name, size string) {
	u.step()
	u.try(func() error {
		claim := &corev1.PersistentVolumeClaim{}
		if err := u.api.Get(u.world.ctx, client.ObjectKey{Namespace: claimNamespace, Name: name}, claim); err != nil {
			return err
		}
		claim.Spec.Resources.Requests = storage(size)
		err := u.api.Update(u.world.ctx, claim)
		u.world.log("user asks for %s for claim %s: %v", size, name, err)
		return err
	})
}

// untilSize waits until a claim has what it asks for.
func (u *user) untilSize(name string) {
	u.until(func() bool {
		claim := u.get(name)
		return claim == nil || satisfied(claim)
	})
}

func satisfied(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return has.Cmp(wants) >= 0
}

func (u *user) untilState(name string, state corev1.ClaimResourceStatus) {
	u.until(func() bool {
		claim := u.get(name)
		return claim == nil || claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == state
	})
}

// askForMore is the action of the user that the sweep puts at every operation.
func askForMore(w *world) {
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		claim.Spec.Resources.Requests = storage("7Gi")
		err := w.server.Client().Update(w.ctx, claim)
		w.log("user asks for 7Gi for claim %s: %v", claim.Name, err)
	}
}

var resizeWorkloads = []workload{
	{name: "a claim grows", small: true, writes: 3, setup: sized("x"), script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "a claim grows on its node", small: true, writes: 4, setup: onNode(sized("x")), script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "a claim grows twice", small: true, writes: 6, setup: sized("x"), script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
		u.ask("x", "3Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "more is asked for during an expansion", small: true, contested: true, setup: sized("x"), script: func(u *user) {
		u.ask("x", "2Gi")
		u.pause(2 * time.Millisecond)
		u.ask("x", "3Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "less is asked for during an expansion", small: true, contested: true, setup: sized("x"), script: func(u *user) {
		u.ask("x", "4Gi")
		u.pause(2 * time.Millisecond)
		u.ask("x", "2Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "a size that the driver refuses, and a smaller one", small: true, repeated: true, setup: sized("x"), script: func(u *user) {
		u.ask("x", "100Gi")
		u.untilState("x", corev1.PersistentVolumeClaimControllerResizeInfeasible)
		u.ask("x", "3Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
	{name: "three claims grow on their nodes", setup: onNode(sized("x", "y", "z")), script: func(u *user) {
		for _, name := range []string{"x", "y", "z"} {
			u.ask(name, "2Gi")
		}
		for _, name := range []string{"x", "y", "z"} {
			u.untilSize(name)
		}
	}, processSet: resizeAlone},
}

// ofResizer is what must hold where the resizer is ours.
func (e end) ofResizer() {
	e.expanding.noMoreThanThereIs()
	e.classesAreThoseOfTheClaims()
	for _, claim := range e.claims {
		if !satisfied(claim) {
			e.violate("RZ: claim %s asks for %s and has %s", claim.Name, claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage())
		}
		if len(claim.Status.AllocatedResourceStatuses) > 0 {
			e.violate("RZ: the expansion of claim %s does not end: %v", claim.Name, claim.Status.AllocatedResourceStatuses)
		}
	}
	for volume, size := range e.expanding.pending {
		e.violate("RZ-X10: the outcome of %d bytes for volume %s stays unknown", size, volume)
	}
	for _, pv := range e.volumes {
		if old, left := pv.Annotations[names.AnnPreResizeCapacity]; left {
			e.violate("RZ-D1: PersistentVolume %s keeps the annotation with %s", pv.Name, old)
		}
	}
}
