package sim

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	sizes "github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// Workloads of the other parts of the sweep in which work is vain or waits last long.

// always is longer than a run: what is set to it never happens.
const always = 1000 * time.Hour

// vainBindings are for the binder and the protection controllers.
var vainBindings = playedBy(besideForeign, []workload{
	{name: "another program removes the protection of claims", few: true, contested: true, setup: nothingYet, script: func(u *user) {
		u.volume("v")
		u.claim("a")
		u.untilBound("a")
		u.undo(4*time.Second, undoEach(u, &corev1.PersistentVolumeClaim{}, false, func(claim *corev1.PersistentVolumeClaim) bool {
			return without(claim, names.FinalizerPVCProtection)
		}))
	}},
	{name: "named by a claim for two minutes", few: true, setup: nothingYet, script: func(u *user) {
		u.claim("a", naming("v"))
		u.pause(2 * time.Minute)
		u.volume("v")
		u.untilBound("a")
	}},
	{name: "too small for a slip for 20G", few: true, setup: nothingYet, script: func(u *user) {
		u.volume("v")
		u.claim("a", asking("20E"))
		u.pause(2 * time.Minute)
		u.claim("b")
		u.untilBound("b")
		u.deleteClaim("a")
	}},
})

var vainBindingMutants = []mutant{
	{name: "repeats what changes nothing without a delay", repeats: 1 << 30},
	{name: "does not say that a wait lasts", sayAfter: always},
	{name: "takes the bytes of a quantity as they come", client: reads(roundBytes), cached: cachedEdits(roundBytes), handlers: shownAs(roundBytes), costs: true},
}

// vainAttaching is for attaching.
func vainAttaching(c *processSet, suffix string) []workload {
	return []workload{
		{name: "another program clears the lists of nodes" + suffix, few: true, repeated: true, contested: true, processSet: c, setup: disks("x"), script: func(u *user) {
			u.runPod("p", "a", "x")
			u.untilRuns("p")
			u.undo(4*time.Second, undoEach(u, &corev1.Node{}, true, func(node *corev1.Node) bool {
				listed := len(node.Status.VolumesAttached) > 0
				node.Status.VolumesAttached = nil
				return listed
			}))
		}},
		orphanedAttachment(c, "a VolumeAttachment whose volume is gone"+suffix, func(*user) {}),
		orphanedAttachment(c, "a VolumeAttachment whose volume was created again without CSI"+suffix, func(u *user) {
			_ = u.api.Create(u.world.ctx, &corev1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: "old"},
				Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
					NFS: &corev1.NFSVolumeSource{Server: "nfs.example", Path: "/"},
				}},
			})
		}),
		{name: "a driver comes to its node after two minutes" + suffix, few: true, repeated: true, processSet: c, setup: disks("x"), script: func(u *user) {
			drivers := u.registerDrivers("a", nil)
			u.runPod("p", "a", "x")
			u.pause(2 * time.Minute)
			u.registerDrivers("a", drivers)
			u.untilRuns("p")
		}},
	}
}

// orphanedAttachment forces the PersistentVolume of a VolumeAttachment away before it can be attached,
// and creates another one with the same handle; again may then create one of the first name.
func orphanedAttachment(c *processSet, name string, again func(*user)) workload {
	return workload{name: name, few: true, repeated: true, contested: true, processSet: c, setup: func(u *user) {
		u.world.driver.Locks = true
		u.boundVolume("x", "old", corev1.ReadWriteOnce)
	}, script: func(u *user) {
		u.world.driver.Unreachable(true)
		u.runPod("p", "a", "x")
		u.pause(time.Second)
		u.replaceVolume("x", "old", "new")
		again(u)
		u.pause(time.Second)
		u.world.driver.Unreachable(false)
		u.untilRuns("p")
	}}
}

// registerDrivers sets the drivers of a node, and returns those before.
func (u *user) registerDrivers(node string, drivers []storagev1.CSINodeDriver) (before []storagev1.CSINodeDriver) {
	u.world.log("node %s has %d drivers", node, len(drivers))
	u.try(func() error {
		csiNode := &storagev1.CSINode{}
		if err := u.api.Get(u.world.ctx, client.ObjectKey{Name: node}, csiNode); err != nil {
			return err
		}
		before, csiNode.Spec.Drivers = slices.Clone(csiNode.Spec.Drivers), drivers
		return u.api.Update(u.world.ctx, csiNode)
	})
	return before
}

// seesOld returns the PersistentVolume that is gone as if it were there.
type seesOld struct{ client.Reader }

// Get implements client.Reader.
func (s seesOld) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := s.Reader.Get(ctx, key, o, opts...)
	if pv, is := o.(*corev1.PersistentVolume); is && err != nil && key.Name == "old" {
		*pv = corev1.PersistentVolume{}
		pv.Name = key.Name
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "x"}
		return nil
	}
	return err
}

var vainAttachMutants = []mutant{
	{
		name: "keeps the VolumeAttachment of a volume that is gone", of: attachDetach,
		cached: func(r client.Reader) client.Reader { return seesOld{r} },
		live:   func(live, _ client.Reader) client.Reader { return seesOld{live} },
	},
	{name: "repeats what changes nothing without a delay", repeats: 1 << 30},
	{name: "does not say that a wait lasts", sayAfter: always},
}

// vainResizes are for the resizer.
var vainResizes = []workload{
	{name: "another program sets the old size", few: true, repeated: true, contested: true, setup: sized("x"), script: func(u *user) {
		u.ask("x", "2Gi")
		u.untilSize("x")
		u.undo(4*time.Second, undoEach(u, &corev1.PersistentVolumeClaim{}, true, func(claim *corev1.PersistentVolumeClaim) bool {
			has := claim.Status.Capacity[corev1.ResourceStorage]
			claim.Status.Capacity = storage("1Gi")
			return has.Cmp(claim.Status.Capacity[corev1.ResourceStorage]) > 0
		}))
	}, processSet: resizeAlone},
	{name: "a slip for 20G, and then 2Gi", few: true, repeated: true, setup: sized("x"), script: func(u *user) {
		u.ask("x", "20E")
		u.pause(2 * time.Minute)
		u.ask("x", "2Gi")
		u.untilSize("x")
	}, processSet: resizeAlone},
}

var vainResizeMutants = []mutant{
	{name: "repeats what changes nothing without a delay", repeats: 1 << 30},
	{name: "emits no event", mute: true},
	{name: "asks for as much as a message can say", cached: cachedEdits(mostBytes), client: reads(mostBytes)},
}

// roundBytes has a claim ask for the number that a quantity returns for its size: 0 for 20E.
func roundBytes(claim *corev1.PersistentVolumeClaim) {
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: sizes.Quantity(wants.Value())}
}

// mostBytes has a claim ask for no more bytes than a message can have.
func mostBytes(claim *corev1.PersistentVolumeClaim) {
	most := sizes.Quantity(sizes.Limit)
	if wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]; sizes.Compare(wants, most) > 0 {
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: most}
	}
}

// reads has objects of a kind read otherwise from the API server.
func reads[T client.Object](change func(T)) func(client.Client, client.Reader) client.Client {
	return func(api client.Client, _ client.Reader) client.Client { return editedReads[T]{api, change} }
}

type editedReads[T client.Object] struct {
	client.Client
	change func(T)
}

// Get implements client.Reader.
func (e editedReads[T]) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return editedCache[T]{e.Client, e.change}.Get(ctx, key, o, opts...)
}

// shownAs has objects of a kind look otherwise in the events of informers.
func shownAs[T client.Object](change func(T)) hook {
	look := func(in any) any {
		if o, ok := in.(T); ok {
			o = o.DeepCopyObject().(T)
			change(o)
			return o
		}
		return in
	}
	return func(_ client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
		return toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.OnAdd(look(o), false) },
			UpdateFunc: func(was, is any) { h.OnUpdate(look(was), look(is)) },
			DeleteFunc: func(o any) { h.OnDelete(look(o)) },
		}
	}
}

// everAsked is RZ-X1 for a call: a claim asked for as many bytes at some time.
func (w *world) everAsked(call csidriver.Expansion) {
	for _, change := range w.server.History(&corev1.PersistentVolumeClaim{}, 0) {
		claim := change.Object.(*corev1.PersistentVolumeClaim)
		wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if claim.Spec.VolumeName == call.Volume && sizes.Compare(wants, sizes.Quantity(call.Bytes)) == 0 {
			return
		}
	}
	w.violate("RZ: %d bytes are asked for volume %s, which no claim asked for", call.Bytes, call.Volume)
}
