package provision

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
)

// unaware is a cache without Nodes and CSINodes.
type unaware struct{ client.Reader }

func (u unaware) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	switch o.(type) {
	case *corev1.Node, *storagev1.CSINode:
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	return u.Reader.Get(ctx, key, o, opts...)
}

// onNode is a claim for which the scheduler has picked a node.
func onNode(t *testing.T, objects ...client.Object) *rig {
	t.Helper()
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	r := newRig(t, withoutSecrets, func(class *storagev1.StorageClass) { class.VolumeBindingMode = &mode })
	r.Driver.HasTopology = true
	r.choose(t, "n1")
	for _, o := range objects {
		if err := r.api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) choose(t *testing.T, node string) {
	t.Helper()
	claim := r.claim(t)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, names.AnnSelectedNode, node)
	if err := r.api.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func theNode() client.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
}

func itsDrivers() client.Object {
	return &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n1"},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: "n1", TopologyKeys: []string{"zone"}}}},
	}
}

// C-61, C-104, H-8: the selection of a node that is gone is taken back, and of no other.
func TestSelectionOfANodeThatIsGone(t *testing.T) {
	for _, tc := range []struct {
		row     string
		objects []client.Object
		cached  func(client.Reader) client.Reader
		created int
		left    string
	}{
		{"there", []client.Object{theNode(), itsDrivers()}, nil, 1, "n1"},
		{"C-61 its CSINode is gone", []client.Object{theNode()}, nil, 0, ""},
		{"H-8 it is gone, and its CSINode is not", []client.Object{itsDrivers()}, nil, 0, ""},
		{"C-104 both are gone", nil, nil, 0, ""},
		{"newer than memory", []client.Object{theNode(), itsDrivers()}, func(r client.Reader) client.Reader { return unaware{r} }, 1, "n1"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			r := onNode(t, tc.objects...)
			if tc.cached != nil {
				r.Cached = r.Cached.Over(tc.cached(r.api))
			}
			r.run(t)
			if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != tc.left || len(r.driver.created) != tc.created {
				t.Errorf("selected node %q, CreateVolume %d times; want %q, %d; events %q", got, len(r.driver.created), tc.left, tc.created, r.events)
			}
		})
	}
}

// C-26: after the selection was taken back no volume is asked for on that node, although the cache
// still shows the claim from before. A newer selection counts as soon as the cache shows it.
func TestReschedulingIsSeenBeforeTheCacheShowsIt(t *testing.T) {
	r := onNode(t, theNode(), itsDrivers())
	r.driver.create = codes.ResourceExhausted
	cache := &photo{Reader: r.api, claim: r.claim(t)}
	r.Cached = r.Cached.Over(cache)
	for range 3 {
		r.run(t)
		r.clock.Step(10 * time.Minute)
	}
	if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != "" || len(r.driver.created) != 1 {
		t.Errorf("selected node %q, CreateVolume %d times", got, len(r.driver.created))
	}
	r.choose(t, "n1")
	cache.claim = r.claim(t)
	if r.run(t); len(r.driver.created) != 2 {
		t.Errorf("CreateVolume %d times after a newer selection", len(r.driver.created))
	}
}

// C-26: the scheduler has picked another node by the time that the selection of the first is taken
// back.
func TestNewerSelectionStays(t *testing.T) {
	r := onNode(t)
	old := r.claim(t)
	r.choose(t, "n2")
	if _, err := r.Apply(t.Context(), provision.Snapshot{Key: r.key}, provision.Reschedule{Claim: old}); err != nil {
		t.Fatal(err)
	}
	if got := r.claim(t).Annotations[names.AnnSelectedNode]; got != "n2" {
		t.Errorf("C-26: selected node %q", got)
	}
}

// H-9, U-15: the node of the scheduler's choice never gets the driver. After a while the scheduler
// may choose again.
func TestNodeWithoutTheDriverIsRescheduled(t *testing.T) {
	others := itsDrivers().(*storagev1.CSINode)
	others.Spec.Drivers[0].Name = "csi.other"
	r := onNode(t, theNode(), others)
	attempts := 0
	for ; r.claim(t).Annotations[names.AnnSelectedNode] != "" && attempts < 50; attempts++ {
		r.run(t)
		r.clock.Step(5 * time.Minute)
	}
	if attempts != 9 || len(r.driver.created) > 0 {
		t.Errorf("%d attempts, %d volumes", attempts, len(r.driver.created))
	}
	r.choose(t, "n1")
	r.run(t)
	if r.claim(t).Annotations[names.AnnSelectedNode] == "" {
		t.Error("the next choice is not given the same time")
	}
}
