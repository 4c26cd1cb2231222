package up

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
)

func TestLossOf(t *testing.T) {
	with := func(status corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}}}
	}
	terminating := with(corev1.ConditionTrue)
	terminating.DeletionTimestamp = &metav1.Time{}
	entry := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "other"}, {Name: "d"}}}}
	other := &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "other"}}}}
	for row, tc := range map[string]struct {
		node    *corev1.Node
		csiNode *storagev1.CSINode
		want    loss
	}{
		"registered":               {with(corev1.ConditionTrue), entry, lostNothing},
		"made not ready by a user": {with(corev1.ConditionFalse), entry, lostNothing},
		"deleted":                  {nil, entry, lostNothing},
		"being deleted":            {terminating, nil, lostNothing},
		"created again":            {&corev1.Node{}, entry, lostNode},
		"created again, all gone":  {&corev1.Node{}, nil, lostNode},
		"no CSINode":               {with(corev1.ConditionTrue), nil, lostDriver},
		"no entry":                 {with(corev1.ConditionTrue), other, lostDriver},
	} {
		if got := lossOf(tc.node, tc.csiNode, "d"); got != tc.want {
			t.Errorf("%s: %d, want %d", row, got, tc.want)
		}
	}
}

// A Node that a user deletes and creates again is one of `up` again, with its driver.
func TestNodeIsKept(t *testing.T) {
	api := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithStatusSubresource(&corev1.Node{}).Build()
	node := bootstrap.Node{Name: "purser"}
	at := bootstrap.Place{Driver: csirpc.Description{Name: "d"}, NodeID: "id"}
	k := newNodeKeeper(bootstrap.Setup{Client: api}, at, []bootstrap.Node{node})
	keep := func() loss {
		t.Helper()
		if err := k.keep(context.Background(), api, node); err != nil {
			t.Fatal(err)
		}
		have, csiNode := &corev1.Node{}, &storagev1.CSINode{}
		for _, o := range []client.Object{have, csiNode} {
			if err := api.Get(t.Context(), client.ObjectKey{Name: node.Name}, o); err != nil {
				t.Fatal(err)
			}
		}
		return lossOf(have, csiNode, "d")
	}
	if err := api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}); err != nil {
		t.Fatal(err)
	}
	if lost := keep(); lost != lostNothing {
		t.Errorf("after the Node was created again: %d", lost)
	}
	if err := api.Delete(t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}); err != nil {
		t.Fatal(err)
	}
	if lost := keep(); lost != lostNothing {
		t.Errorf("after the CSINode was deleted: %d", lost)
	}
}
