package attachdetach

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
)

// 4.6: changes of one node that come while a write is in flight go out in one write, each caller gets
// the Node as of its write, and another node does not wait for a write that hangs.
func TestNodeStatusIsWrittenTogether(t *testing.T) {
	begun, goOn := make(chan string, 10), make(chan struct{})
	r := newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			begun <- o.GetName()
			if o.GetName() == "a" {
				<-goOn
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}, node("a"), node("b"))
	done := make(chan error, 10)
	set := func(on string, n int) {
		name := corev1.UniqueVolumeName(fmt.Sprintf("v%d", n))
		got, err := r.status.set(t.Context(), on, name, present)
		if err == nil && !slices.ContainsFunc(got.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name }) {
			err = errors.New("the Node of the answer lacks the volume")
		}
		done <- err
	}
	go set("a", 0)
	<-begun
	for n := range 4 {
		go set("a", n+1)
	}
	for r.waitingFor("a") < 4 {
		time.Sleep(time.Millisecond)
	}
	r.clock.Step(attachment.ListSpacing)
	set("b", 0)
	<-begun
	close(goOn)
	for range 6 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := len(begun); n != 1 || len(r.lists("a")) != 5 {
		t.Errorf("%d more writes, and the node lists %v", n, r.lists("a"))
	}
}

// isListing reports whether the volume is to come into the list of node a.
func (r *rig) isListing(volume corev1.UniqueVolumeName) bool {
	listing, _ := r.status.changes(volume)
	return listing["a"]
}

// waitingFor returns how many changes wait for a write of the node.
func (r *rig) waitingFor(name string) int {
	r.status.mu.Lock()
	defer r.status.mu.Unlock()
	if pending := r.status.nodes[name]; pending != nil {
		return len(pending.waiting)
	}
	return 0
}

// 4.6: a list that another writer has changed is read again before it is written.
func TestNodeStatusOnAStaleNode(t *testing.T) {
	refused := 0
	r := newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			err := c.SubResource(sub).Patch(ctx, o, patch, opts...)
			if err == nil {
				return nil
			}
			refused++
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, o.GetName(), nil) // as a real API server says it
		},
	}, node("a", hasListed))
	stale := node("a")
	stale.ResourceVersion = "1000000"
	r.Cached.Wrote(stale)
	if _, err := r.status.set(t.Context(), "a", "other", present); err != nil {
		t.Fatal(err)
	}
	if got := r.lists("a"); len(got) != 2 || refused != 1 {
		t.Errorf("the node lists %v, and %d patches were refused", got, refused)
	}
	if gone, err := r.status.set(t.Context(), "none", "v", present); gone != nil || err != nil {
		t.Errorf("a node that does not exist: %v, %v", gone, err)
	}
}

// 4.6: while further volumes are attached to a node, its list is written once in a while; the last
// volume, a detach, and the first volume of another node do not wait.
func TestNodeStatusOfManyAttaches(t *testing.T) { synctest.Test(t, manyAttaches) }

func manyAttaches(t *testing.T) {
	writes := make(chan string, 10)
	r := newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			defer func() { writes <- o.GetName() }()
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}, node("a"), node("b"))
	r.Workers = 100
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"},
	}
	r.must(r.api.Create(t.Context(), va))
	done := make(chan error, 10)
	set := func(on string, n int, p presence) {
		_, err := r.status.set(t.Context(), on, corev1.UniqueVolumeName(fmt.Sprintf("v%d", n)), p)
		done <- err
	}
	set("a", 0, present)
	<-writes
	for n := range 3 {
		go set("a", n+1, present)
	}
	held := func(n int) {
		synctest.Wait() // the writer has looked at all of them, and waits for the clock
		if got := r.waitingFor("a"); got != n {
			t.Errorf("%d volumes wait for the write, want %d", got, n)
		}
	}
	held(3)
	set("b", 0, present)
	<-writes
	if len(writes) != 0 {
		t.Errorf("%d more writes of a node to which a volume is attached", len(writes))
	}
	r.clock.Step(attachment.ListSpacing)
	<-writes
	go set("a", 4, present)
	held(1)
	go set("a", 0, absent)
	<-writes
	go set("a", 5, present)
	held(1)
	va.Status.Attached = true
	r.must(r.api.Status().Update(t.Context(), va))
	go set("a", 6, present) // the last one, whose VolumeAttachment it was
	<-writes
	for range 9 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if len(writes) != 0 || len(r.lists("a")) != 6 {
		t.Errorf("%d more writes, and the node lists %v", len(writes), r.lists("a"))
	}
}

// A worker that is cancelled, as when the process lost the lease, is not written for.
func TestNodeStatusOfACancelledWorker(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, node("a"))
	r.Workers = 100
	r.must(r.api.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"},
	}))
	_, err := r.status.set(t.Context(), "a", "v0", present)
	r.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := r.status.set(ctx, "a", "v1", present)
		done <- err
	}()
	for !r.clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("no error of a worker that is cancelled")
	}
	r.clock.Step(attachment.ListSpacing)
	_, err = r.status.set(t.Context(), "a", "v2", present)
	r.must(err)
	if got := r.lists("a"); !slices.Equal(got, []string{"v0", "v2"}) {
		t.Errorf("the node lists %v", got)
	}
}

// 4.6: no worker waits for a write that is not due. The volume counts as listed until then, so that a detach
// removes it from the list before its VolumeAttachment is deleted; it is not listed any more then.
func TestNodeStatusWithoutAWorker(t *testing.T) {
	writes := make(chan string, 10)
	fails := errors.New("busy")
	r := newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			defer func() { writes <- o.GetName() }()
			if fails != nil {
				return fails
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}, node("a"))
	r.Workers = 100
	r.must(r.api.Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "va"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"},
	}))
	done := make(chan error, 10)
	later := func(volume corev1.UniqueVolumeName) bool {
		var err error
		return r.status.later("a", volume, present, func(o outcome) { err = o.err }, func() { done <- err })
	}
	set := func(volume corev1.UniqueVolumeName, p presence) error {
		_, err := r.status.set(t.Context(), "a", volume, p)
		<-writes
		return err
	}
	if later("v0") {
		t.Error("before the start")
	}
	r.status.lead(t.Context())
	if later("v0") {
		t.Error("the write would begin at once")
	}
	if err := set("v0", present); !errors.Is(err, fails) || later("v0") {
		t.Errorf("after a failure: %v", err)
	}
	fails = nil
	r.clock.Step(attachment.ListSpacing)
	r.must(set("v0", present))
	if !later("v1") || !later("v2") || !r.isListing("v1") || r.isListing("v0") || len(r.lists("a")) != 1 {
		t.Errorf("volumes are to be listed later: %v, and the node lists %v", r.status.pending, r.lists("a"))
	}
	r.must(set("v1", absent))
	if err := <-done; err != nil || len(r.status.pending) > 0 || len(done) > 0 || !slices.Equal(r.lists("a"), []string{"v0", "v2"}) {
		t.Errorf("%v, listings %v, the node lists %v", err, r.status.pending, r.lists("a"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.status.lead(ctx)
	if !later("v3") {
		t.Error("the write is not due")
	}
	cancel() // the process does not lead any more
	r.clock.Step(attachment.ListSpacing)
	r.must(set("v4", present))
	if len(r.status.pending) > 0 || len(done) > 0 || !slices.Equal(r.lists("a"), []string{"v0", "v2", "v4"}) {
		t.Errorf("listings %v, the node lists %v", r.status.pending, r.lists("a"))
	}
}
