package floor

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

const (
	driverName = "floor.bench.purser"
	className  = "floor"
	modified   = "floor-modified" // the VolumeAttributesClass
	namespace  = "floor"
	restored   = "restored-" // begins the names of restored claims
)

// item is what one operation is about. What the bare client needs of an object is its last state.
type item struct {
	name, node string

	pair, restored pair
	attachment     *storagev1.VolumeAttachment
	snapshot       *snapshotv1.VolumeSnapshot
	content        *snapshotv1.VolumeSnapshotContent
}

// pair is a claim and its volume.
type pair struct {
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume // of the bare client only
}

// items returns n new items, each with a node in turn.
func (t *turn) items(n int) []*item {
	all := make([]*item, n)
	for i := range all {
		t.made++
		all[i] = &item{
			name: fmt.Sprintf("%s-%d-%05d", t.running.Short, t.round, t.made), node: nodeName(i % t.sizes.nodes),
		}
	}
	return all
}

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i) }

func (t *turn) askProvision(ctx context.Context, it *item) error {
	it.pair.claim = runner.NewClaim(namespace, it.name, new(className))
	return t.users.Create(ctx, it.pair.claim)
}

func (t *turn) askDelete(ctx context.Context, it *item) error {
	return t.users.Delete(ctx, it.pair.claim)
}

func (t *turn) askExpand(ctx context.Context, it *item) error {
	return t.patch(ctx, it.pair.claim, `{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
}

func (t *turn) askModify(ctx context.Context, it *item) error {
	return t.patch(ctx, it.pair.claim, `{"spec":{"volumeAttributesClassName":"`+modified+`"}}`)
}

func (t *turn) patch(ctx context.Context, object client.Object, text string) error {
	return t.users.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(text)))
}

func (t *turn) askAttach(ctx context.Context, it *item) error { return t.users.Create(ctx, podOf(it)) }

func (t *turn) askDetach(ctx context.Context, it *item) error {
	return t.users.Delete(ctx, podOf(it), client.GracePeriodSeconds(0))
}

func podOf(it *item) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: it.name},
		Spec: corev1.PodSpec{
			NodeName: it.node, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			AutomountServiceAccountToken: new(false),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: it.name},
			}}},
		},
	}
}

func (t *turn) askSnapshot(ctx context.Context, it *item) error {
	it.snapshot = &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: it.name},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new(className),
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &it.name},
		},
	}
	return t.users.Create(ctx, it.snapshot)
}

func (t *turn) askRestore(ctx context.Context, it *item) error {
	claim := runner.NewClaim(namespace, restored+it.name, new(className))
	// the source may have been expanded
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: doubleSize}
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(names.SnapshotGroup), Kind: "VolumeSnapshot", Name: it.name,
	}
	it.restored.claim = claim
	return t.users.Create(ctx, claim)
}

func (t *turn) askDeleteSnapshot(ctx context.Context, it *item) error {
	return t.users.Delete(ctx, &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: it.name},
	})
}
