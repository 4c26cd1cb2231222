package live

import (
	"fmt"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/rolestest"
)

// work sees one object of the role through its life.
func (r *chartRun) work() {
	r.Helper()
	switch r.row.Role {
	case "csi-provisioner":
		r.provisions()
	case "csi-attacher":
		va := r.attachment(r.id, r.driver.name)
		await(r.liveCluster, "attached", va, isAttached)
		r.remove(va)
		r.calledOnce("ControllerPublishVolume", "ControllerUnpublishVolume")
	case "csi-resizer":
		claim := r.boundPair(r.id, r.driver.name)
		r.ask(claim, "2Gi")
		await(r.liveCluster, "the claim has 2Gi", claim, hasSize("2Gi"))
		await(r.liveCluster, "the expansion has ended", claim, func(c *corev1.PersistentVolumeClaim) bool {
			return len(c.Status.AllocatedResourceStatuses) == 0
		})
		r.calledOnce("ControllerExpandVolume")
	case "csi-snapshotter":
		r.snapshots()
	case "snapshot-controller":
		r.binds()
	}
}

// provisions creates a volume for a claim and deletes it, and sees the capacity published where the
// chart asks for it.
func (r *chartRun) provisions() {
	r.Helper()
	class := r.waitingClass(r.id, r.driver.name, nil)
	claim := r.claim(r.id, &class.Name)
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: r.driver.name, names.AnnSelectedNode: "node"}
	if err := r.user.Update(r.Context(), claim); err != nil {
		r.Fatal(err)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pvc-" + string(claim.UID))}
	await(r.liveCluster, "the volume", pv, func(*corev1.PersistentVolume) bool { return true })
	if got := pv.Spec.NodeAffinity != nil; got != r.row.Topology {
		r.Errorf("node affinity %v", pv.Spec.NodeAffinity)
	}
	if r.row.Capacity {
		rolestest.Eventually(r.T, "the capacity is published", func() error {
			published, _ := r.capacities()
			zone := strings.TrimSpace(r.id + " " + map[bool]string{true: "a"}[r.row.Topology])
			if published[zone] == "" {
				return fmt.Errorf("published %v", published)
			}
			return nil
		})
	}
	r.release(claim, pv)
	rolestest.Eventually(r.T, "the volume is deleted", func() error { return r.gone(pv) })
	r.calledOnce("CreateVolume", "DeleteVolume")
}

// calledOnce checks that the driver got one call of each method.
func (r *chartRun) calledOnce(methods ...string) {
	r.Helper()
	for _, method := range methods {
		if calls := r.driver.called(method); calls != 1 && !r.repeats {
			r.Errorf("%d calls of %s", calls, method)
		}
	}
}

// snapshotClass creates the class of the row's snapshots.
func (r *chartRun) snapshotClass() {
	r.Helper()
	r.create(&snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1Name(r.id), Driver: r.driver.name, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
}

// binds has the snapshot-controller bind a VolumeSnapshot to its content and take it back; the test is
// the csi-snapshotter.
func (r *chartRun) binds() {
	r.Helper()
	r.snapshotClass()
	claim := r.boundPair(r.id, r.driver.name)
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: r.id}, Spec: snapshotv1.VolumeSnapshotSpec{
		VolumeSnapshotClassName: &r.id, Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim.Name},
	}}
	r.create(vs)
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1Name("snapcontent-" + string(vs.UID))}
	await(r.liveCluster, "the content", content, func(*snapshotv1.VolumeSnapshotContent) bool { return true })
	before := content.DeepCopy()
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{
		SnapshotHandle: new("handle"), ReadyToUse: new(true), RestoreSize: new(int64(1 << 30)), CreationTime: new(int64(1)),
	}
	if err := r.user.Status().Patch(r.Context(), content, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
	await(r.liveCluster, "the snapshot is ready", vs, func(vs *snapshotv1.VolumeSnapshot) bool {
		return vs.Status != nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse
	})
	if err := r.user.Delete(r.Context(), vs.DeepCopy()); err != nil {
		r.Fatal(err)
	}
	await(r.liveCluster, "the content is being deleted", content, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return c.Annotations[names.AnnSnapshotBeingDeleted] == "yes" && c.DeletionTimestamp != nil
	})
	before = content.DeepCopy()
	content.Finalizers = nil
	if err := r.user.Patch(r.Context(), content, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
	rolestest.Eventually(r.T, "the VolumeSnapshot is gone", func() error { return r.gone(vs) })
}

// snapshots takes the snapshot of a content, as the snapshot-controller writes it, and deletes it.
func (r *chartRun) snapshots() {
	r.Helper()
	r.snapshotClass()
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{
		Name: r.id, Finalizers: []string{names.FinalizerSnapshotContent},
	}, Spec: snapshotv1.VolumeSnapshotContentSpec{
		Driver: r.driver.name, VolumeSnapshotClassName: &r.id, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("volume")},
		VolumeSnapshotRef: corev1.ObjectReference{Kind: "VolumeSnapshot", Namespace: "default", Name: r.id, UID: "uid-of-it"},
	}}
	r.create(content)
	await(r.liveCluster, "the snapshot is ready", content, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return c.Status != nil && c.Status.ReadyToUse != nil && *c.Status.ReadyToUse
	})
	before := content.DeepCopy()
	content.Annotations = map[string]string{names.AnnSnapshotBeingDeleted: "yes"}
	if err := r.user.Patch(r.Context(), content, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
	r.remove(content)
	r.calledOnce("CreateSnapshot", "DeleteSnapshot")
}
