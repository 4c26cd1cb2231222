package kube

import (
	"context"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What an index of own writes finds is what a look at all of them finds, whatever was written, seen and gone.
func TestOwnWritesByValue(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test that can be repeated
	r := NewOwnWrites[*storagev1.VolumeAttachment]()
	nodeOf := func(va *storagev1.VolumeAttachment) []string { return []string{va.Spec.NodeName} }
	for i := range 5000 {
		va := attachment(strconv.Itoa(random.IntN(20)), strconv.Itoa(random.IntN(3)))
		va.UID, va.ResourceVersion = types.UID(strconv.Itoa(random.IntN(3))), strconv.Itoa(1+i/2+random.IntN(20))
		switch random.IntN(5) {
		case 0:
			r.Saw(va)
		case 1:
			r.Gone(va)
		case 2:
			r.Forget(va)
		default:
			r.Wrote(va)
		}
		if i%1000 == 500 {
			r.indexBy(byNode, nodeOf) // once more: nothing is there twice
		}
		if _, isIndexed := r.with(byNode, "0"); isIndexed != (i >= 500) {
			t.Fatalf("after %d writes: indexed is %v", i, isIndexed)
		}
		for node := range 3 {
			found, _ := r.with(byNode, strconv.Itoa(node))
			want := r.entries()
			maps.DeleteFunc(want, func(_ client.ObjectKey, own *storagev1.VolumeAttachment) bool {
				return own.Spec.NodeName != strconv.Itoa(node)
			})
			if i >= 500 && !maps.Equal(found.entries, want) {
				t.Fatalf("step %d, node %d: found %v; want %v", i, node, found.entries, want)
			}
		}
	}
	for key, own := range r.entries() {
		r.drop(key, own)
	}
	if left := len(r.values.keys); left != 0 {
		t.Errorf("%d values are left of nothing", left)
	}
}

// seenMeanwhile is a cache that the watch passes while it is listed.
type seenMeanwhile struct {
	client.Reader
	pass func()
}

func (c seenMeanwhile) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Reader.List(ctx, list, opts...)
	c.pass()
	return err
}

// An own write takes an object from the list of one node to that of another. The watch delivers it between
// the list of the cache and the look at the own writes, which then has nothing.
func TestListWhenTheWatchPassesMeanwhile(t *testing.T) {
	for node, want := range map[string]int{"n": 0, "m": 1} {
		t.Run(node, func(t *testing.T) {
			o := newOverlaid(t)
			moved := o.create(attachment("a", "n"))
			o.show()
			moved.Spec.NodeName = "m"
			if err := o.writer.Update(t.Context(), moved); err != nil {
				t.Fatal(err)
			}
			var list storagev1.VolumeAttachmentList
			over := o.overlay.Over(seenMeanwhile{o.cached, o.show})
			err := over.List(t.Context(), &list, client.MatchingFields{byNode: node})
			if err != nil || len(list.Items) != want {
				t.Errorf("%d, %v; want %d", len(list.Items), err, want)
			}
		})
	}
}
