package live

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// SN-L1, SN-L2, SN-R1: node-local volumes on two nodes, with the flags that charts of distributed
// drivers set, and the permissions that upstream ships, those to read nodes among them. The content
// is labelled with the node of the volume, and only the csi-snapshotter there calls its driver.
func TestDistributedSnapshots(t *testing.T) {
	p := newLiveCluster(t)
	p.snapshotKinds()
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "snapshot-controller-nodes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(t.Context(), manifest.Name(), manifest); err != nil {
		t.Fatal(err)
	}
	p.create(&snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: "class", Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"}},
		Driver:     "csi.example", DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
	p.snapshotController(append([]string{"--v=5", "--enable-distributed-snapshotting=true"}, quickly...)...)
	drivers, claims := map[string]*scriptedDriver{}, map[string]*corev1.PersistentVolumeClaim{}
	for _, node := range []string{"node-a", "node-b"} {
		p.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{corev1.LabelHostname: node}}})
		claims[node] = p.boundPair("on-"+node, "csi.example")
		p.restrict("pv-on-"+node, node)
		d := &scriptedDriver{name: "csi.example", snapshot: taken, capabilities: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		}}
		drivers[node] = d
		t.Setenv("NODE_NAME", node)
		p.csiSnapshotter("--v=5", "--csi-address="+d.serve(t), "--node-deployment=true")
	}
	for node, other := range map[string]string{"node-a": "node-b", "node-b": "node-a"} {
		before := drivers[other].called("CreateSnapshot")
		vs := &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-" + node},
			Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new("on-" + node)}},
		}
		p.create(vs)
		await(p, "the snapshot is ready", vs, isUsable)
		content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: *vs.Status.BoundVolumeSnapshotContentName}}
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(content), content); err != nil {
			t.Fatal(err)
		}
		if got := content.Labels[names.LabelSnapshotNode]; got != node {
			t.Errorf("SN-L1: the content is labelled with %q, want %q", got, node)
		}
		p.removeSnapshot(vs, claims[node])
		created, deleted := drivers[node].called("CreateSnapshot"), drivers[node].called("DeleteSnapshot")
		if created != 1 || deleted != 1 || drivers[other].called("CreateSnapshot") != before {
			t.Errorf("SN-L2: %s: %d calls of CreateSnapshot and %d of DeleteSnapshot, want one each, and none of %s", node, created, deleted, other)
		}
	}
}

// restrict makes a volume reachable from one node only.
func (p liveCluster) restrict(volume, node string) {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(volume)}
	if err := p.user.Get(p.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		p.Fatal(err)
	}
	before := pv.DeepCopy()
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
	}}}}
	if err := p.user.Patch(p.Context(), pv, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}
