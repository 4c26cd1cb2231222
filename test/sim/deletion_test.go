package sim

import (
	"context"
	"hash/fnv"
	"os"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// I12: everything that is deleted goes, also while what a deletion needs is missing: at once, or, where the
// driver must be called, when the missing thing is back.

// thing is what a deletion lacks.
type thing string

const (
	noThing    thing = ""
	aSecret    thing = "the secret"
	aClass     thing = "the class"
	aCSIDriver thing = "the CSIDriver"
	theDriver  thing = "the driver"
)

// preventsCalls reports whether no call to the driver is possible without the thing.
func (t thing) preventsCalls() bool { return t == aSecret || t == theDriver }

// missingThings delete everything while something is missing, from the first operation on.
func missingThings(calm result, _ extent) (all []schedule) {
	things := []thing{aClass}
	if calm.work.processSet != nil && slices.ContainsFunc(calm.work.processSet.ours, role.attaches) {
		things = []thing{aCSIDriver}
	}
	if calm.work.secrets {
		things = append(things, aSecret)
	}
	if len(calm.calls) > 0 {
		things = append(things, theDriver)
	}
	for n := 1; n <= calm.ops; n++ {
		for _, missing := range things {
			s := schedule{missing: missing, missingAt: n}
			crashed := s
			crashed.crashes, crashed.downFor = []crash{{n + 1, lost}}, briefly
			all = append(all, s, crashed)
		}
	}
	return all
}

// needs removes no finalizer of objects of a kind when another object is gone.
func needs[T client.Object](name func(T) string, kind client.Object) func(client.Client, client.Reader) client.Client {
	check := func(ctx context.Context, c client.Client, o client.Object, drops bool) error {
		if held, is := o.(T); is && drops {
			return c.Get(ctx, client.ObjectKey{Name: name(held)}, kind.DeepCopyObject().(client.Object))
		}
		return nil
	}
	return hooks{
		patch: func(ctx context.Context, c client.Client, o client.Object, p client.Patch) error {
			data, err := p.Data(o)
			if err == nil {
				err = check(ctx, c, o, p.Type() == types.JSONPatchType || strings.Contains(string(data), "deleteFrom"))
			}
			if err != nil {
				return err
			}
			return c.Patch(ctx, o, p)
		},
		update: func(ctx context.Context, c client.Client, o client.Object) error {
			if err := check(ctx, c, o, o.GetDeletionTimestamp() != nil); err != nil {
				return err
			}
			return c.Update(ctx, o)
		},
	}.client
}

// remove has the missing thing go, and the user delete everything.
func (w *world) remove(missing thing) {
	w.log("%s goes, and the user deletes everything", missing)
	switch missing {
	case aSecret:
		deleteObjects(w, &corev1.Secret{})
	case aClass:
		w.dropClasses()
	case aCSIDriver:
		deleteObjects(w, &storagev1.CSIDriver{})
	case theDriver:
		w.driver.Unreachable(true)
	case noThing:
	}
	w.deleteEverything()
}

// restore brings a missing thing back. A class is not needed.
func (w *world) restore(missing thing) {
	w.log("%s is back", missing)
	switch missing {
	case aSecret:
		(&user{world: w, api: w.server.Client()}).secret()
	case theDriver:
		w.driver.Unreachable(false)
	case noThing, aClass, aCSIDriver:
	}
}

func deleteObjects[T client.Object](w *world, kind T) {
	for _, o := range apiserver.Objects(w.server, kind) {
		_ = w.server.Client().Delete(w.ctx, o)
	}
}

// deleteEverything has the user delete all that users have. Pods on dead nodes are deleted by force, and
// VolumeAttachments where no controller does it.
func (w *world) deleteEverything() {
	for _, pod := range apiserver.Objects(w.server, &corev1.Pod{}) {
		if w.attaching != nil && w.attaching.is(w.attaching.dead, pod.Spec.NodeName) {
			w.attaching.mark(w.attaching.forced, pod.Spec.NodeName, true)
			pod.Finalizers = nil
			_ = w.server.Client().Update(w.ctx, pod)
		}
	}
	deleteObjects(w, &corev1.Pod{})
	deleteObjects(w, &corev1.PersistentVolumeClaim{})
	deleteObjects(w, &snapshotv1.VolumeSnapshot{})
	if w.attaching == nil {
		deleteObjects(w, &storagev1.VolumeAttachment{})
	}
}

// deletesAll reports whether the user deletes everything at the end of the run: in each without faults, in
// a third of the others, and in a fifth in the reduced sweep. It takes as long as the run before it.
func (w *world) deletesAll() bool {
	if w.schedule.faultless() {
		return true
	}
	oneOf := uint32(5)
	if os.Getenv("SIM") != "" {
		oneOf = 3
	}
	sample := fnv.New32()
	sample.Write([]byte(w.work.name + w.schedule.String()))
	return sample.Sum32()%oneOf == 0
}

// checkWhileMissing checks that only what needs the missing thing is left of what was deleted, with an event.
func (w *world) checkWhileMissing() {
	for _, o := range w.terminating() {
		switch {
		case !w.schedule.missing.preventsCalls():
			w.violate("I12: %s does not go without %s: %v", describe("", o).text, w.schedule.missing, o.GetFinalizers())
		case isOfUser(o) && !slices.ContainsFunc(o.GetFinalizers(), isOfSource):
			w.violate("I12: %s does not go without %s, and needs no call: %v", describe("", o).text, w.schedule.missing, o.GetFinalizers())
		}
	}
}

// isOfSource reports whether a finalizer protects what a volume is made from.
func isOfSource(finalizer string) bool {
	return finalizer == names.FinalizerCloneSource || finalizer == names.FinalizerRestoreSource
}

// terminating returns the objects that are being deleted and whose finalizers belong to a controller of
// the run.
func (w *world) terminating() (all []client.Object) {
	keep := func(o client.Object) {
		if o.GetDeletionTimestamp() != nil && slices.ContainsFunc(o.GetFinalizers(), w.isServed) {
			all = append(all, o)
		}
	}
	for _, o := range apiserver.Objects(w.server, &corev1.Pod{}) {
		keep(o)
	}
	for _, o := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		keep(o)
	}
	for _, o := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		keep(o)
	}
	for _, o := range apiserver.Objects(w.server, &storagev1.VolumeAttachment{}) {
		keep(o)
	}
	for _, o := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		if o.Name != foreignSnapshot {
			keep(o)
		}
	}
	return all
}

// isServed reports whether a controller of the run removes a finalizer.
func (w *world) isServed(finalizer string) bool {
	switch {
	case strings.HasPrefix(finalizer, "sim/"):
		return w.attaching != nil
	case finalizer == names.FinalizerPVCProtection || finalizer == names.FinalizerPVProtection:
		return w.attaching == nil && w.expanding == nil && !slices.Contains(w.work.processSet.ours, growing)
	}
	return true
}

// finale has the user delete everything, and checks that it goes.
func (w *world) finale() {
	w.log("the user deletes everything")
	w.ending.Store(true)
	w.deleteEverything()
	w.settle()
	for _, o := range w.terminating() {
		w.violate("I12: %s is deleted and does not go: %v", describe("", o).text, o.GetFinalizers())
	}
	w.work.processSet.check(w.now())
}
