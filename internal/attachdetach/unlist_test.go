package attachdetach

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
)

// busy is a rig in which node a waits while node b is written. That write ends when goOn is closed. Each
// write of node a is in written.
func busy(t *testing.T, a *corev1.Node, objects ...client.Object) (r *rig, goOn, written chan struct{}) {
	t.Helper()
	goOn, written = make(chan struct{}), make(chan struct{}, 10)
	begun := make(chan struct{})
	r = newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if o.GetName() == "b" {
				close(begun)
				<-goOn
			} else {
				defer func() { written <- struct{}{} }()
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}, append(objects, a, node("b"))...)
	r.memory.lead(workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[Key]()))
	r.status.lead(t.Context())
	go func() { _, _ = r.status.set(t.Context(), "b", "other", present) }()
	<-begun
	return r, goOn, written
}

// awaitKey waits until the volume is enqueued.
func (r *rig) awaitKey() {
	key, _ := r.memory.queue.Get()
	r.memory.queue.Done(key)
}

// 4.6: no worker waits for a node that is not written yet. The VolumeAttachment is deleted after the answer.
func TestUnlistWithoutAWorker(t *testing.T) {
	r, goOn, _ := busy(t, node("a", hasListed), append(pair(), va("a", true))...)
	for range 2 {
		r.run()
		if all := r.attachments(); len(all) != 1 || all[0].DeletionTimestamp != nil || len(r.lists("a")) != 1 || r.waitingFor("a") != 1 {
			t.Fatalf("before the write: %d changes, the node lists %v, and there is %+v", r.waitingFor("a"), r.lists("a"), all)
		}
	}
	close(goOn)
	r.awaitKey()
	if all := r.attachments(); all[0].DeletionTimestamp != nil || len(r.lists("a")) != 0 {
		t.Fatalf("after the write the node lists %v, and there is %+v", r.lists("a"), all)
	}
	r.run()
	if all := r.attachments(); all[0].DeletionTimestamp == nil {
		t.Errorf("it is not deleted: %+v", all)
	}
}

// A pod that comes back before the write has the volume stay in the list.
func TestUnlistOfAVolumeThatIsWantedAgain(t *testing.T) {
	r, goOn, _ := busy(t, node("a", hasListed), append(pair(), va("a", true))...)
	r.run()
	r.must(r.api.Create(t.Context(), pod("p", "a")))
	r.run()
	close(goOn)
	r.awaitKey()
	r.run()
	if all := r.attachments(); all[0].DeletionTimestamp != nil || len(r.lists("a")) != 1 || len(r.status.pending) > 0 {
		t.Errorf("the node lists %v, and there is %+v", r.lists("a"), all)
	}
}

// C6: a volume that the answer reports in use is listed again, and stays attached.
func TestUnlistOfAVolumeThatIsUsedByThen(t *testing.T) {
	r, goOn, written := busy(t, node("a", hasListed), append(pair(), va("a", true))...)
	r.run()
	now := &corev1.Node{}
	r.must(r.api.Get(t.Context(), client.ObjectKey{Name: "a"}, now))
	inUse(now)
	r.must(r.api.Status().Update(t.Context(), now))
	close(goOn)
	<-written
	<-written
	r.run()
	if all := r.attachments(); all[0].DeletionTimestamp != nil || len(r.lists("a")) != 1 {
		t.Errorf("the node lists %v, and there is %+v", r.lists("a"), all)
	}
}

// A write that hangs delays no other node for long.
func TestUnlistBesideAWriteThatHangs(t *testing.T) {
	r, goOn, written := busy(t, node("a", hasListed), append(pair(), va("a", true))...)
	r.run()
	r.clock.Step(attachment.ListSpacing)
	<-written
	r.awaitKey()
	close(goOn)
	r.run()
	if all := r.attachments(); all[0].DeletionTimestamp == nil {
		t.Errorf("it is not deleted: %+v", all)
	}
}

// 4.6: the answer can say that the volume is in use, which has it listed again. Until that is pending, the
// first change is: no decision between them deletes the VolumeAttachment of a volume that will be listed.
func TestAnswerIsJudgedWhileItsChangeIsPending(t *testing.T) {
	r, goOn, _ := busy(t, node("a", hasListed))
	name := volume.UniqueName()
	then := make(chan struct{})
	isPending := false
	if !r.status.later("a", name, absent, func(outcome) {
		_, unlisting := r.status.changes(name)
		isPending = unlisting["a"]
	}, func() { close(then) }) {
		t.Fatal("the write would begin at once")
	}
	close(goOn)
	<-then
	if _, unlisting := r.status.changes(name); !isPending || unlisting["a"] {
		t.Errorf("pending while it is judged: %v, and then: %v", isPending, unlisting["a"])
	}
}
