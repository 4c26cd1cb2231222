package kubelet

import (
	"fmt"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// nodeValues are those of volumes on several nodes, with the classes of the chart. The node's network takes the
// place of network plugins.
func (r *rig) nodeValues() string {
	host, port := r.server()
	const pods, driverPorts = 2, 5
	first := r.freePorts(pods + driverPorts)
	return fmt.Sprintf(`
image: {tag: %s, pullPolicy: Never, onNodes: true}
hostNetwork: true
test: {enabled: false}
apiServer: {host: %q, port: %q}
controllers: {enabled: true, replicas: 1, port: %d}
snapshotController: {enabled: true, replicas: 1, port: %d, distributed: true}
driver:
  enabled: true
  name: %s
  kubeletDir: %s
  stateDir: %s
  port: %d
  snapshotter: true
  storageClasses:
    - {name: fast, default: true, parameters: {csi.storage.k8s.io/fstype: xfs}}
  volumeSnapshotClasses:
    - {name: fast, default: true}
  volumeAttributesClasses:
    - {name: trims, parameters: {discard: "true"}}
`, tag, host, port, first, first+1, driverName, r.kubeletDir(), r.stateDir(), first+pods)
}

// What the chart installs for several nodes gives usable storage without an object of an administrator: the
// sidecars of each node, with a token that is limited to its volumes, provision, expand, modify, snapshot and
// restore them.
func TestChartOnEachNode(t *testing.T) {
	r := newRig(t)
	objects := r.render(r.nodeValues())
	r.install(objects, 3)
	claim := r.claim("data", nil)
	writer := r.pod("writer", claim, "write", "/v/hello", "read", "/v/hello", "wait")
	r.awaitRunning(writer)
	r.awaitFile(r.target(r.kubeletDir(), writer, claim))

	before := r.blocks(r.target(r.kubeletDir(), writer, claim))
	r.expand(claim, "512Mi")
	if now := r.blocks(r.target(r.kubeletDir(), writer, claim)); now <= before {
		t.Errorf("the filesystem has %d blocks, before the expansion %d", now, before)
	}
	r.modify(claim, "trims")

	snapshot := r.snapshot(claim)
	restored := r.claimOf("restored", "512Mi", &snapshot.Name)
	reader := r.pod("reader", restored, "read", "/v/hello")
	r.awaitPhase(reader, corev1.PodSucceeded)

	r.remove(writer, reader, snapshot, claim, restored)
	r.awaitNone(&corev1.PersistentVolumeList{}, &storagev1.VolumeAttachmentList{}, &snapshotv1.VolumeSnapshotContentList{})
	r.removeAttributesClass("trims")
	r.uninstall(objects)
}
