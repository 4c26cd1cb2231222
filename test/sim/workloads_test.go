package sim

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// workload is what people do.
type workload struct {
	name           string
	small          bool // enough for pairs of crashes
	setup          func(*user)
	script         func(*user)
	cast           *cast // nil for our provisioner beside the stock controllers
	contested      bool  // two want the same, and one of them is refused
	repeated       bool  // what the driver refuses
	saves          bool  // an administrator changes the policy of a volume that is to be deleted
	nodes          bool  // the volumes of the driver are each on one node
	named          bool  // the driver's ids follow from the names, and its first answer is lost
	shares         bool  // the driver answers every claim with the same volume
	writesTogether int   // of those that attach, in one process
	writes         int   // that we need for all of it, our journal left out; 0 when not counted
}

// user is a person with kubectl.
type user struct {
	world *world
	api   client.Client
}

const (
	claimNamespace = "crew"
	className      = "sim"
	patience       = 2 * time.Minute
)

func immediate(u *user) {
	u.class(corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate)
}

var workloads = []workload{
	{name: "one claim", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "three claims", setup: immediate, script: func(u *user) {
		for _, name := range []string{"a", "b", "c"} {
			u.claim(name)
		}
		u.untilBound("a", "b", "c")
	}},
	{name: "three claims come and go", setup: immediate, script: func(u *user) {
		for _, name := range []string{"a", "b", "c"} {
			u.claim(name)
		}
		u.untilBound("a", "b", "c")
		for _, name := range []string{"a", "b", "c"} {
			u.deleteClaim(name)
		}
		u.untilNoVolumes()
	}},
	{name: "reclaim policy Delete", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoVolumes()
	}},
	{name: "reclaim policy Retain", small: true, setup: func(u *user) {
		u.class(corev1.PersistentVolumeReclaimRetain, storagev1.VolumeBindingImmediate)
	}, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.pause(2 * time.Second)
	}},
	{name: "volume deleted before its claim", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteVolumes()
		u.pause(time.Second)
		u.deleteClaim("a")
		u.untilNoVolumes()
	}},
	{name: "wait for first consumer", small: true, setup: func(u *user) {
		u.class(corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer)
	}, script: func(u *user) {
		u.claim("a")
		u.pause(time.Second)
		u.selectNode("a")
		u.untilBound("a")
	}},
	{name: "claim created again", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "claim created again at once", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.pause(4 * time.Millisecond)
		u.deleteClaim("a")
		u.claim("a")
		u.untilBound("a")
	}},
	{name: "attached for longer than its claim lives", small: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.attach()
		u.pause(100 * time.Millisecond)
		u.deleteClaim("a")
		u.pause(2 * time.Second)
		u.detach()
		u.untilNoVolumes()
	}},
	{name: "saved while its deletion fails", saves: true, repeated: true, setup: immediate, script: func(u *user) {
		u.world.driver.Down(true)
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.pause(15 * time.Second)
		u.keepVolumes()
		u.pause(callTimeout + time.Second) // what is under way by then cannot be called back
		u.world.driver.Down(false)
		u.pause(30 * time.Second)
	}},
	{name: "saved while it is attached", saves: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.attach()
		u.pause(100 * time.Millisecond)
		u.deleteClaim("a")
		u.pause(15 * time.Second)
		u.keepVolumes()
		u.pause(time.Second)
		u.detach()
		u.pause(time.Second)
	}},
	{name: "released, and given to another claim by its uid", setup: immediate, script: givenByUID},
	{
		name: "a class that is gone for a moment, and a volume with the id of the one before", small: true, named: true, repeated: true,
		setup: immediate, script: func(u *user) {
			u.claim("a")
			u.until(func() bool { return u.world.driver.Made() > 0 })
			u.world.dropClasses() // the volume is not wanted, and is deleted
			u.pause(1500 * time.Millisecond)
			u.class(corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate)
			u.untilBound("a")
		},
	},
	{name: "a share, and a claim for it that goes at once", shares: true, repeated: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.claim("b")
		u.pause(4 * time.Millisecond)
		u.deleteClaim("b")
		u.untilShareIsLeft("a")
	}},
	{name: "a share that a claim gets while it is to be deleted", shares: true, repeated: true, setup: immediate, script: func(u *user) {
		u.world.driver.Down(true)
		u.claim("b")
		u.untilBound("b")
		u.deleteClaim("b")
		u.pause(2 * time.Second)
		u.claim("a")
		u.untilBound("a")
		u.pause(3 * time.Second)
		u.world.driver.Down(false)
		u.untilShareIsLeft("a")
	}},
	{name: "its node has no room", small: true, nodes: true, repeated: true, setup: delayedOn("full", "free"), script: func(u *user) {
		u.world.driver.Fill("full", true)
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoVolumes()
		u.pause(10 * time.Second)
		u.world.driver.Fill("full", false) // what the driver refuses stays on record for longer than we watch
	}},
	{name: "room comes later", nodes: true, repeated: true, setup: delayedOn("full"), script: func(u *user) {
		u.world.driver.Fill("full", true)
		u.claim("a")
		u.pause(5 * time.Second)
		u.world.driver.Fill("full", false)
		u.untilBound("a")
	}},
	{name: "its node goes", small: true, nodes: true, setup: delayedOn("old", "new"), script: func(u *user) {
		u.claim("a")
		u.untilSelected("a")
		u.removeNode("old")
		u.untilBound("a")
	}},
	{name: "released and kept, and then to be deleted", setup: kept, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.deleteClaim("a")
		u.pause(2 * time.Second)
		u.turn(corev1.PersistentVolumeReclaimDelete)
		u.untilNoVolumes()
	}},
	{name: "to be deleted after all", saves: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.turn(corev1.PersistentVolumeReclaimRetain)
		u.pause(time.Second)
		u.turn(corev1.PersistentVolumeReclaimDelete)
		u.pause(time.Millisecond)
		u.deleteClaim("a")
		u.untilNoVolumes()
	}},
	{name: "class created later", small: true, setup: func(*user) {}, script: func(u *user) {
		u.claim("a")
		u.pause(time.Second)
		immediate(u)
		u.untilBound("a")
		u.deleteClaim("a")
		u.untilNoVolumes()
	}},
}

// untilShareIsLeft lets the last claim of a share go after a new process has undone what a former
// one began, and a watch that was broken is well.
func (u *user) untilShareIsLeft(claim string) {
	u.pause(healsAfter + 5*time.Second)
	u.deleteClaim(claim)
	u.untilNoVolumes()
}

// step is how long a person takes.
func (u *user) step() { time.Sleep(213 * time.Microsecond) }

func (u *user) pause(d time.Duration) { time.Sleep(d) }

// try repeats what an API server may refuse for a moment.
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
	u.world.restored = nil // they are deleted too
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

// dropClasses deletes every class.
func (w *world) dropClasses() {
	for _, class := range apiserver.Objects(w.server, &storagev1.StorageClass{}) {
		w.log("user deletes class %s", class.Name)
		_ = w.server.Client().Delete(w.ctx, class)
	}
}

// otherDriver is that of another client.
const otherDriver = "csi.other"

func ofDriver(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == driverName
}

// recreateClasses deletes every class and makes it again with other parameters; for another driver
// if one is named.
func (w *world) recreateClasses(driver string) {
	for _, class := range apiserver.Objects(w.server, &storagev1.StorageClass{}) {
		w.log("user creates class %s again", class.Name+driver)
		_ = w.server.Client().Delete(w.ctx, class)
		again := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class.Name}, Provisioner: cmp.Or(driver, class.Provisioner), Parameters: map[string]string{"new": "yes"},
			ReclaimPolicy: class.ReclaimPolicy, VolumeBindingMode: class.VolumeBindingMode,
		}
		_ = w.server.Client().Create(w.ctx, again)
	}
}
