package sim

import (
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// In one half of the runs the schedule deletes what volumes are made from, in the other half all
// claims as well.
var (
	sourcesGo = sourceProcesses((*world).deleteSources)
	allGo     = sourceProcesses(func(w *world) {
		w.deleteSources()
		for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
			w.log("user deletes claim %s", claim.Name)
			_ = w.server.Client().Delete(w.ctx, claim)
		}
	})
)

func sourceProcesses(disturb func(*world)) *processSet {
	return &processSet{
		ours: besideStock.ours, kinds: append(slices.Clone(besideStock.kinds), snapshotKinds...), check: end.ofSources, disturb: disturb, copies: true,
		startOthers: func(w *world) {
			stock(w)
			go w.snapshotController()
		},
	}
}

// snapshotKinds are in the cache of the provisioner too.
var snapshotKinds = []client.Object{&snapshotv1.VolumeSnapshot{}, &snapshotv1.VolumeSnapshotContent{}}

var sourceWorkloads = append(sourceScripts(sourcesGo, ""), sourceScripts(allGo, ", all go")...)

func sourceScripts(c *processSet, suffix string) []workload {
	return []workload{
		{name: "two restores of one snapshot" + suffix, small: true, processSet: c, setup: snapshotted, script: func(u *user) {
			u.claim("a", restoring("s", "1Gi"))
			u.claim("b", restoring("s", "2Gi"))
			u.untilBound("a", "b")
			u.deleteSnapshot("s")
			u.pause(time.Second)
		}},
		{name: "a snapshot is deleted amid its restore" + suffix, small: true, contested: true, processSet: c, setup: snapshotted, script: func(u *user) {
			u.claim("a", restoring("s", "1Gi"))
			u.pause(2 * time.Millisecond)
			u.deleteSnapshot("s")
			u.untilBound("a")
			u.deleteClaim("a")
			u.untilNoVolumes()
		}},
		{name: "one restore of two cannot be" + suffix, small: true, processSet: c, setup: snapshotted, script: func(u *user) {
			u.claim("small", restoring("s", "1Mi"))
			u.claim("a", restoring("s", "1Gi"))
			u.untilBound("a")
			u.deleteSnapshot("s")
			u.deleteClaim("small")
			u.pause(time.Second)
		}},
		{name: "a claim is cloned twice and deleted" + suffix, small: true, processSet: c, setup: immediate, script: func(u *user) {
			u.claim("old")
			u.untilBound("old")
			u.claim("a", cloning("old"))
			u.claim("b", cloning("old"))
			u.pause(2 * time.Millisecond)
			u.deleteClaim("old")
			u.untilBound("a", "b")
			u.pause(time.Second)
		}},
		{name: "a clone is deleted while it is made" + suffix, contested: true, processSet: c, setup: immediate, script: func(u *user) {
			u.claim("old")
			u.untilBound("old")
			u.claim("a", cloning("old"))
			u.pause(3 * time.Millisecond)
			u.deleteClaim("a")
			u.deleteClaim("old")
			u.untilNoVolumes()
		}},
		{name: "a snapshot comes after two minutes" + suffix, few: true, repeated: true, processSet: c, setup: immediate, script: func(u *user) {
			u.claim("a", restoring("s", "1Gi"))
			u.pause(2 * time.Minute)
			u.snapshot("s")
			u.untilBound("a")
		}},
		{name: "a snapshot is taken again under its name" + suffix, small: true, processSet: c, setup: snapshotted, script: func(u *user) {
			u.claim("a", restoring("s", "1Gi"))
			u.untilBound("a")
			u.deleteSnapshot("s")
			u.untilNoSnapshot("s")
			u.claim("b", restoring("s", "1Gi"), madeFrom(u.snapshot("s")))
			u.untilBound("b")
		}},
		{name: "finalizers that upstream left" + suffix, processSet: c, setup: func(u *user) {
			immediate(u)
			u.snapshot("s", names.FinalizerRestoreSource)
			u.snapshot("foreign", names.FinalizerRestoreSource)
		}, script: func(u *user) {
			u.claim("old", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{names.FinalizerCloneSource} })
			u.untilBound("old")
			u.deleteSnapshot("s")
			u.deleteClaim("old")
			u.untilNoVolumes()
		}},
	}
}

func snapshotted(u *user) {
	immediate(u)
	u.snapshot("s")
}

// foreignSnapshot is the name of a snapshot of another driver.
const foreignSnapshot = "foreign"

// annMadeFrom is the handle of the snapshot that a claim names, at the time of its creation.
const annMadeFrom = "sim/made-from"

func madeFrom(handle string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, annMadeFrom, handle)
	}
}

// snapshot is a VolumeSnapshot of one gibibyte that is ready, with its content, whose handle it returns; "" if
// there is one of the name.
func (u *user) snapshot(name string, finalizers ...string) (handle string) {
	u.world.log("user takes snapshot %s", name)
	u.taken++
	suffix := fmt.Sprintf("%s-%d", name, u.taken)
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content-" + suffix},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
		Status: &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle-" + suffix)},
	}
	if name == foreignSnapshot {
		content.Spec.Driver = "other.example"
	}
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name, Finalizers: finalizers},
		Status: &snapshotv1.VolumeSnapshotStatus{
			BoundVolumeSnapshotContentName: &content.Name, ReadyToUse: new(true), RestoreSize: new(size("1Gi")[corev1.ResourceStorage]),
		},
	}
	switch err := u.api.Create(u.world.ctx, vs); {
	case apierrors.IsAlreadyExists(err): // the previous one waits for a claim whose class or driver is gone
		return ""
	case err != nil:
		u.world.violate("the snapshot cannot be created: %v", err)
	}
	content.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: vs.Namespace, Name: vs.Name, UID: vs.UID}
	if err := u.api.Create(u.world.ctx, content); err != nil {
		u.world.violate("the content cannot be created: %v", err)
	}
	u.world.driver.AddSource(*content.Status.SnapshotHandle)
	return *content.Status.SnapshotHandle
}

// untilNoSnapshot waits until a VolumeSnapshot that was deleted is gone.
func (u *user) untilNoSnapshot(name string) {
	u.until(func() bool {
		err := u.api.Get(u.world.ctx, client.ObjectKey{Namespace: claimNamespace, Name: name}, &snapshotv1.VolumeSnapshot{})
		return apierrors.IsNotFound(err)
	})
}

func (u *user) deleteSnapshot(name string) {
	u.step()
	u.world.log("user deletes snapshot %s", name)
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name}}
	_ = u.api.Delete(u.world.ctx, vs)
}

func restoring(snapshot, much string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new(names.SnapshotGroup), Kind: source.KindSnapshot, Name: snapshot}
		claim.Spec.Resources.Requests = size(much)
	}
}

func cloning(from string) func(*corev1.PersistentVolumeClaim) {
	return func(claim *corev1.PersistentVolumeClaim) {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: source.KindClaim, Name: from}
	}
}

// deleteSources is what the user does at the worst of times: whatever volumes are made from goes.
func (w *world) deleteSources() {
	for _, vs := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshot{}) {
		if vs.Name != foreignSnapshot {
			w.log("user deletes snapshot %s", vs.Name)
			_ = w.server.Client().Delete(w.ctx, vs)
		}
	}
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if claim.Name == "old" {
			w.log("user deletes claim %s", claim.Name)
			_ = w.server.Client().Delete(w.ctx, claim)
		}
	}
}

// snapshotController deletes the snapshot in the backend, and then its content, when its
// VolumeSnapshot is gone.
func (w *world) snapshotController() {
	for w.ctx.Err() == nil {
		time.Sleep(50*time.Millisecond + 11*time.Microsecond)
		for _, content := range apiserver.Objects(w.server, &snapshotv1.VolumeSnapshotContent{}) {
			key := client.ObjectKey{Namespace: content.Spec.VolumeSnapshotRef.Namespace, Name: content.Spec.VolumeSnapshotRef.Name}
			if client.IgnoreNotFound(w.server.Client().Get(w.ctx, key, &snapshotv1.VolumeSnapshot{})) == nil &&
				w.server.Client().Get(w.ctx, key, &snapshotv1.VolumeSnapshot{}) != nil {
				w.log("the snapshot controller deletes content %s", content.Name)
				w.driver.RemoveSource(*content.Status.SnapshotHandle)
				_ = w.server.Client().Delete(w.ctx, content)
			}
		}
	}
}
