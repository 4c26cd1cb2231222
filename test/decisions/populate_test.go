package decisions_test

import (
	"slices"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

func creates(t *testing.T, api client.Client) func(client.Object) {
	t.Helper()
	return func(o client.Object) {
		t.Helper()
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

// populateSnapshots creates VolumeSnapshots that are new, taken, restored from, without a claim and
// bound to content that is gone, with contents, and claims that are a source.
func populateSnapshots(t *testing.T, api client.Client) {
	t.Helper()
	create := creates(t, api)
	create(&snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "daily", Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"}},
		Driver:     "d", DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
	all := []string{
		names.FinalizerSnapshotBound, names.FinalizerSnapshotSource, names.FinalizerRestoreSource,
	}
	for name, of := range map[string]struct {
		claim, class string
		ready        bool
		finalizers   []string
	}{
		"new": {"unused", "daily", false, nil}, "by-default": {"unused", "", false, all}, "lacks-class": {"unused", "none", false, all},
		"lacks-claim": {"none", "daily", false, all}, "taken": {"unused", "daily", true, all}, "lost": {"unused", "daily", true, all},
		"restored": {"unused", "daily", true, all}, "idle": {"unused", "daily", true, all[2:]},
	} {
		vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Finalizers: of.finalizers}}
		vs.Spec.Source.PersistentVolumeClaimName = &of.claim
		if of.class != "" {
			vs.Spec.VolumeSnapshotClassName = &of.class
		}
		if of.ready {
			vs.Status = &snapshotv1.VolumeSnapshotStatus{ReadyToUse: new(true), BoundVolumeSnapshotContentName: new("content-" + name)}
		}
		create(vs)
		if of.ready && name != "lost" {
			createContent(t, api, vs)
		}
	}
	for name, from := range map[string]corev1.TypedLocalObjectReference{
		"restores": {APIGroup: new(snapshotv1.GroupName), Kind: "VolumeSnapshot", Name: "restored"},
		"clones":   {Kind: "PersistentVolumeClaim", Name: "unused"},
	} {
		create(&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{names.AnnStorageProvisioner: "d"}},
			Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("ours"), DataSource: &from},
		})
	}
	create(&corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "was-cloned", Finalizers: []string{names.FinalizerCloneSource}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-unused"},
	})
	if err := api.Delete(t.Context(), &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "restored"}}); err != nil {
		t.Fatal(err)
	}
}

// createContent creates the content of a VolumeSnapshot. That of one that is restored from has no
// snapshot yet, and that of an idle one lacks its finalizer.
func createContent(t *testing.T, api client.Client, vs *snapshotv1.VolumeSnapshot) {
	t.Helper()
	content := &snapshotv1.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: "content-" + vs.Name},
		Spec: snapshotv1.VolumeSnapshotContentSpec{
			Driver: "d", DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, VolumeSnapshotClassName: new("daily"),
			Source:            snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("unused")},
			VolumeSnapshotRef: corev1.ObjectReference{Namespace: vs.Namespace, Name: vs.Name, UID: vs.UID},
		},
	}
	if vs.Name != "idle" {
		content.Finalizers = []string{names.FinalizerSnapshotContent}
	}
	creates(t, api)(content)
	if vs.Name == "restored" {
		return
	}
	content.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new(vs.Name), ReadyToUse: new(true)}
	if err := api.Status().Update(t.Context(), content); err != nil {
		t.Fatal(err)
	}
}

// populateAttachments creates a VolumeAttachment that is attached, one to do, one on a second node of
// an exclusive volume and one whose volume is gone, and has pods use volumes on nodes.
func populateAttachments(t *testing.T, api client.Client) {
	t.Helper()
	create := creates(t, api)
	create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}})
	for _, name := range []string{"node", "other"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"zone": name}, Annotations: map[string]string{names.AnnManagedAttach: "true"},
		}}
		create(node)
		node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: corev1.UniqueVolumeName(names.UniqueVolumeName("d", "gone"))}}
		if err := api.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		create(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: name, TopologyKeys: []string{"zone"}}}},
		})
	}
	for name, of := range map[string]struct {
		volume, handle, node string
		attached             bool
	}{
		"attached": {"pv-used", "used", "node", true}, "second": {"pv-used", "used", "other", false},
		"new": {"pv-unused", "", "node", false}, "volume-gone": {"pv-gone", "gone", "node", true},
	} {
		va := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{names.AttacherFinalizer("d")}},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: "d", NodeName: of.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &of.volume},
			},
		}
		if of.handle != "" {
			va.Annotations = map[string]string{names.AnnVolumeHandle: of.handle, names.AnnAttachedNodeID: of.node}
		}
		create(va)
		va.Status.Attached = of.attached
		if err := api.Status().Update(t.Context(), va); err != nil {
			t.Fatal(err)
		}
	}
}

// populateCapacities creates the published capacity of the class that waits for pods and one of a class
// that is gone.
func populateCapacities(t *testing.T, api client.Client) {
	t.Helper()
	for _, class := range []string{"late", "gone"} {
		creates(t, api)(&storagev1.CSIStorageCapacity{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "of-" + class, Labels: map[string]string{
				names.LabelCapacityDriver: "d", names.LabelCapacityManagedBy: names.CapacityManager(""),
			}},
			StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "other"}},
		})
	}
}

// objectsOf returns the objects of the kinds that decisions read, as a dump lists them.
func objectsOf(server *apiserver.Server) []client.Object {
	return slices.Concat(
		list(server, &corev1.PersistentVolumeClaim{}), list(server, &corev1.PersistentVolume{}), list(server, &corev1.Pod{}),
		list(server, &storagev1.StorageClass{}), list(server, &corev1.Node{}), list(server, &storagev1.CSINode{}),
		list(server, &storagev1.CSIDriver{}), list(server, &storagev1.VolumeAttachment{}),
		list(server, &snapshotv1.VolumeSnapshot{}), list(server, &snapshotv1.VolumeSnapshotContent{}),
		list(server, &snapshotv1.VolumeSnapshotClass{}), list(server, &storagev1.CSIStorageCapacity{}),
	)
}

func list[T client.Object](server *apiserver.Server, of T) (all []client.Object) {
	for _, o := range apiserver.Objects(server, of) {
		all = append(all, o)
	}
	return all
}
