package sim

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/test/sim/apiserver"
)

// workload is a sequence of user actions.
type workload struct {
	name           string
	small          bool // enough for pairs of crashes
	setup          func(*user)
	script         func(*user)
	processSet     *processSet // nil for our provisioner beside the stock controllers
	contested      bool        // two users conflict, and one of them is refused
	repeated       bool        // calls that the driver refuses are retried
	saves          bool        // an administrator changes the policy of a volume that is to be deleted
	nodes          bool        // the volumes of the driver are each on one node
	named          bool        // the driver's ids follow from the names, and its first answer is lost
	sourceGoes     bool        // with the claim: see csidriver.Driver; its first answer is lost too
	shares         bool        // the driver answers every claim with the same volume
	writesTogether int         // of those that attach, in one process
	secrets        bool        // the class names a secret
	polls          bool        // the driver is polled for ever
	few            bool        // takes part in few families, since it has many operations or lasts long
	writes         int         // of the processes under test, without the journal; 0 if not counted
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
	{
		name: "a claim that goes during its creation, and its source with it", small: true, sourceGoes: true, repeated: true,
		setup: immediate, script: func(u *user) {
			u.claim("a")
			u.until(func() bool { return u.world.driver.Made() > 0 })
			u.deleteClaim("a")
			u.pause(10 * time.Second)
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
		u.world.driver.Fill("full", false) // a refused request stays in the journal for longer than the test lasts
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
		u.setPolicy(corev1.PersistentVolumeReclaimDelete)
		u.untilNoVolumes()
	}},
	{name: "to be deleted after all", saves: true, setup: immediate, script: func(u *user) {
		u.claim("a")
		u.untilBound("a")
		u.setPolicy(corev1.PersistentVolumeReclaimRetain)
		u.pause(time.Second)
		u.setPolicy(corev1.PersistentVolumeReclaimDelete)
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
