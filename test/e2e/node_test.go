package e2e

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/stage"
)

// A Node of `up` that a user deletes and creates again is Ready again, with its driver, and so is a
// CSINode that is deleted.
func TestNodeIsCreatedAgain(t *testing.T) {
	t.Parallel()
	b := newTestNamespace(t, start(t, stage.Config{DataDir: dataDir(t), Bin: binaries(t), Args: []string{"--node-name", "n1"}}))
	name := metav1.ObjectMeta{Name: "n1"}
	awaitNode := func() {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			node, csiNode := &corev1.Node{ObjectMeta: name}, &storagev1.CSINode{ObjectMeta: name}
			if err := errors.Join(
				b.Client.Get(ctx, client.ObjectKeyFromObject(node), node), b.Client.Get(ctx, client.ObjectKeyFromObject(csiNode), csiNode),
			); err != nil {
				return err
			}
			isReady := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			if !isReady || len(node.Spec.Taints) > 0 || len(csiNode.Spec.Drivers) != 1 {
				return errors.New("the node is not registered")
			}
			return nil
		})
	}
	awaitNode()
	must(t, b.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: name}))
	must(t, b.Client.Create(t.Context(), &corev1.Node{ObjectMeta: name}))
	awaitNode()
	must(t, b.Client.Delete(t.Context(), &storagev1.CSINode{ObjectMeta: name}))
	awaitNode()
}
