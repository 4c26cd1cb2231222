package e2e

import (
	"context"
	"fmt"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// All examples can be applied together. The snapshot among them becomes ready on the real driver,
// and is deleted with its content.
//
// It does not run in parallel: other tests create the classes of one example.
func TestExamplesApplyAsAWhole(t *testing.T) {
	b := newTestNamespace(t, shared(t))
	_, err := b.Kubectl(t.Context(), "apply", "-n", b.name, "-f", examples(t))
	must(t, err)
	vs := &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: b.name, Name: "logbook-monday"}}
	b.awaitUsable(t, vs)
	if size := vs.Status.RestoreSize; size.String() != "1Gi" {
		t.Errorf("restore size %s, want that of the claim, 1Gi", size)
	}
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: *vs.Status.BoundVolumeSnapshotContentName}}
	must(t, b.Client.Get(t.Context(), client.ObjectKeyFromObject(content), content))
	_, err = b.Kubectl(t.Context(), "delete", "-n", b.name, "-f", examples(t), "--wait=false")
	must(t, err)
	b.awaitGone(t, vs)
	b.awaitGone(t, content)
}

// The chapter of the demo about a snapshot: the restored volume has the old content, and the source
// the new one.
func TestSnapshotAndRestore(t *testing.T) {
	t.Parallel()
	s := start(t, stage.Config{DataDir: dataDir(t)})
	c := &life.Copies{Stage: s, Examples: examples(t)}
	possible, err := c.Possible(t.Context())
	must(t, err)
	if !possible {
		t.Skip("the driver takes no snapshots without root")
	}
	live(t, c.Steps())
	stop(t, s)
	if folders(t, s) != 0 {
		t.Errorf("%d volumes are left on disk", folders(t, s))
	}
}

// awaitUsable waits until the snapshot can be restored.
func (b testNamespace) awaitUsable(t *testing.T, vs *snapshotv1.VolumeSnapshot) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := b.Client.Get(ctx, client.ObjectKeyFromObject(vs), vs); err != nil {
			return err
		}
		if vs.Status == nil || !ptr.Deref(vs.Status.ReadyToUse, false) {
			return fmt.Errorf("snapshot %s has status %+v; its events:\n%s", vs.Name, vs.Status, b.story(ctx, vs))
		}
		return nil
	})
}
