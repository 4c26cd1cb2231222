package kubelet

import (
	"errors"
	"fmt"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const driverName = "csi.purser"

// values switch on the controllers, the snapshot-controller and the driver on one node. The node's network takes the place of network plugins.
func (r *rig) values() string {
	host, port := r.server()
	const pods, driverPorts = 2, 5
	first := r.freePorts(pods + driverPorts)
	return fmt.Sprintf(`
image: {tag: %s, pullPolicy: Never, onNodes: true}
hostNetwork: true
test: {enabled: false}
apiServer: {host: %q, port: %q}
controllers: {enabled: true, replicas: 1, port: %d}
snapshotController: {enabled: true, replicas: 1, port: %d}
driver:
  enabled: true
  name: %s
  kubeletDir: %s
  stateDir: %s
  port: %d
  singleNode: true
  snapshotter: true
  resizer: true
  attacher: true
  capacity: false
  extraArgs: [--topology=false, --attach-nodes=*]
  nodeSelector: {kubernetes.io/hostname: %s}
`, tag, host, port, first, first+1, driverName, r.kubeletDir(), r.stateDir(), first+pods, nodeName)
}

// Purser runs as pods on a real kubelet, from nothing but the images and the chart: a volume is
// written and read, snapshotted, restored, expanded and moved to a second node. Then the chart is
// removed, and nothing is left.
func TestChartOnAKubelet(t *testing.T) {
	r := newRig(t)
	objects := r.render(r.values())
	r.install(objects, 3)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driverName, AllowVolumeExpansion: new(true),
		Parameters: map[string]string{"csi.storage.k8s.io/fstype": "xfs"}, // ext4 expands while mounted with CAP_SYS_RESOURCE only
	}
	snapshots := &snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Driver: driverName, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	}
	must(t, errors.Join(r.Create(t.Context(), class), r.Create(t.Context(), snapshots)))

	claim := r.claim("data", nil)
	writer := r.pod("writer", claim, "write", "/v/hello", "read", "/v/hello", "wait")
	r.awaitRunning(writer)
	r.awaitFile(r.target(r.kubeletDir(), writer, claim))

	snapshot := r.snapshot(claim)
	restored := r.claim("restored", &snapshot.Name)
	reader := r.pod("reader", restored, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)

	before := r.blocks(r.target(r.kubeletDir(), writer, claim))
	r.expand(claim, "512Mi")
	if now := r.blocks(r.target(r.kubeletDir(), writer, claim)); now <= before {
		t.Errorf("the filesystem has %d blocks, before the expansion %d", now, before)
	}

	stopSecond := r.startSecondNode()
	r.remove(writer)
	moved := r.pod("moved", claim, "read", "/v/hello")
	r.awaitFile(r.target(r.secondDir(), moved, claim))
	r.mustBeAttached(claim, secondNode)

	r.remove(moved, reader, snapshot, claim, restored, snapshots, class)
	r.awaitNone(&corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}, &snapshotv1.VolumeSnapshotContentList{})
	stopSecond()
	r.uninstall(objects)
}

// claim creates a claim of 320Mi, from a snapshot where one is named.
func (r *rig) claim(name string, from *string) *corev1.PersistentVolumeClaim {
	r.t.Helper()
	return r.claimOf(name, "320Mi", from)
}

// claimOf creates a claim of a size, from a snapshot where one is named.
func (r *rig) claimOf(name, size string, from *string) *corev1.PersistentVolumeClaim {
	r.t.Helper()
	claim := r.newClaim(name, size)
	if from != nil {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: *from}
	}
	must(r.t, r.Create(r.t.Context(), claim))
	return claim
}

// newClaim returns a claim of a size, which is not created yet.
func (*rig) newClaim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}
