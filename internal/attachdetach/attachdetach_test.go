package attachdetach

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// 4.4, 4.12: from a pod on a node to the event and back, with what the metrics say meanwhile.
func TestAttachAndDetach(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, append(pair(), node("a"), pod("p", "a"))...)
	r.run()
	if all := r.attachments(); len(all) != 1 || all[0].Name != names.AttachmentName("h", driver, "a") || *all[0].Spec.Source.PersistentVolumeName != "pv" {
		t.Fatalf("%+v", all)
	}
	r.clock.Step(3 * time.Second)
	one := &r.attachments()[0]
	one.Status.Attached = true
	r.must(r.api.Status().Update(t.Context(), one))
	r.Cached.Saw(one)
	r.run()
	if got := r.lists("a"); !slices.Equal(got, []string{string(volume.UniqueName())}) {
		t.Errorf("the node lists %v", got)
	}
	r.run()
	if !slices.Equal(r.events, []string{"p SuccessfulAttachVolume"}) {
		t.Errorf("events %v", r.events)
	}
	for _, want := range []struct {
		m      telemetry.Metric
		labels []string
	}{
		{telemetry.MetricAttachWait, []string{driver}},
		{telemetry.MetricStorageOperation, []string{"false", "volume_attach", "success", "kubernetes.io/csi:" + driver}},
		{telemetry.MetricAttachableInUse, []string{"a", "kubernetes.io/csi:" + driver}},
		{telemetry.MetricAttachTotal, []string{"kubernetes.io/csi:" + driver, "desired_state_of_world"}},
		{telemetry.MetricAttachTotal, []string{"kubernetes.io/csi:" + driver, "actual_state_of_world"}},
	} {
		if got := r.metric(want.m, want.labels...); got != 1 {
			t.Errorf("4.12 %s%v: %v, want 1", want.m.Name, want.labels, got)
		}
	}
	r.must(r.api.Delete(t.Context(), pod("p", "a")))
	r.run()
	if all := r.attachments(); len(r.lists("a")) > 0 || len(all) > 0 {
		t.Errorf("the node lists %v, and there are %v", r.lists("a"), all)
	}
	r.Cached.Gone(one)
	r.forget(one)
	r.run()
	if n := r.metric(telemetry.MetricStorageOperation, "false", "volume_detach", "success", "kubernetes.io/csi:"+driver); n != 1 {
		t.Errorf("4.12: %v detaches are timed", n)
	}
	if len(r.measures.last)+len(r.measures.begun)+len(r.measures.awaited)+len(r.memory.unwanted) > 0 {
		t.Errorf("something is remembered of a volume that is not attached: %+v", r.measures)
	}
}

// 4.9: a volume that a pod names in place stands in its VolumeAttachment, which has the same key.
func TestInlineVolume(t *testing.T) {
	const cinder = "cinder.csi.openstack.org"
	p := pod("p", "a")
	p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "disk"}}
	r := newRig(t, interceptor.Funcs{}, node("a"), p)
	keys := r.keysOfPod(t.Context(), p)
	if len(keys) != 1 || keys[0] != (Key{Driver: cinder, Handle: "disk"}) {
		t.Fatalf("keys %v", keys)
	}
	if _, err := r.loop.Reconcile(t.Context(), keys[0]); err != nil {
		t.Fatal(err)
	}
	all := r.attachments()
	if len(all) != 1 || all[0].Spec.Attacher != cinder || all[0].Spec.Source.InlineVolumeSpec.CSI.VolumeHandle != "disk" {
		t.Fatalf("%+v", all)
	}
	if key, ok := r.keyOfAttachment(t.Context(), &all[0]); !ok || key != keys[0] {
		t.Errorf("the VolumeAttachment has the key %v", key)
	}
	r.must(r.api.Delete(t.Context(), p))
	again := newRig(t, interceptor.Funcs{}, node("a"), &all[0]) // R4: after a restart
	if _, err := again.loop.Reconcile(t.Context(), keys[0]); err != nil || len(again.attachments()) > 0 {
		t.Errorf("%v, %v", err, again.attachments())
	}
}

// A VolumeAttachment that this process has created and its cache does not show is not created again.
func TestOwnCreateIsRead(t *testing.T) {
	creates := 0
	r := newRig(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*storagev1.VolumeAttachment); is {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			creates++
			return c.Create(ctx, o, opts...)
		},
	}, append(pair(), node("a"), pod("p", "a"))...)
	r.run()
	r.run()
	if creates != 1 {
		t.Errorf("%d creates", creates)
	}
}

// 4.13 R2: a VolumeAttachment of a previous process is written to before its volume is listed.
func TestTakenOverAttachmentIsConfirmed(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, append(pair(), node("a"), pod("p", "a"), va("a", true))...)
	r.run()
	if by := r.attachments()[0].Annotations[names.AnnAttachConfirmed]; by != r.identity || len(r.lists("a")) != 1 {
		t.Errorf("confirmed by %q, and the node lists %v", by, r.lists("a"))
	}
}

// C6: the Node of the unlist's answer decides. A kubelet that has mounted meanwhile keeps its volume.
func TestUnlistedVolumeInUseIsListedAgain(t *testing.T) {
	mounted := false
	r := newRig(t, interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if n, is := o.(*corev1.Node); is && !mounted {
				mounted = true
				now := &corev1.Node{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(n), now); err != nil {
					return err
				}
				inUse(now)
				if err := c.Status().Update(ctx, now); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Patch(ctx, o, patch, opts...)
		},
	}, append(pair(), node("a", hasListed), va("a", true))...)
	r.run()
	if len(r.lists("a")) != 1 || r.attachments()[0].DeletionTimestamp != nil {
		t.Errorf("the node lists %v, the VolumeAttachment is %+v", r.lists("a"), r.attachments()[0])
	}
}

// 4.4 step 4, R7: the timer begins when the need ends, and the detach comes with it, not before.
func TestForcedDetachByTimer(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, append(pair(), node("a", hasListed, inUse, notReady), node("b"), va("a", true), pod("q", "b"))...)
	if after := r.run(); after != 5*time.Minute { // the event of the conflict is repeated before
		t.Errorf("requeued after %s", after)
	}
	r.clock.Step(DefaultForceAfter - time.Second)
	if after := r.run(); after != time.Second || len(r.lists("a")) != 1 {
		t.Errorf("requeued after %s, and the node lists %v", after, r.lists("a"))
	}
	waiting, oldest := r.metric(telemetry.MetricDetachesWaiting, driver, "DetachAwaitsUnmount"), r.metric(telemetry.MetricOldestDetach, driver, "DetachAwaitsUnmount")
	if conflicts := r.metric(telemetry.MetricAttachConflicts, driver); waiting != 1 || oldest != 359 || conflicts != 1 {
		t.Errorf("4.12: %v wait, the oldest for %v s, %v conflicts", waiting, oldest, conflicts)
	}
	r.clock.Step(time.Second)
	r.run()
	if r.attachments()[0].DeletionTimestamp == nil || len(r.lists("a")) > 0 {
		t.Errorf("%+v", r.attachments())
	}
	if n := r.metric(telemetry.MetricForcedDetaches, "timeout"); n != 1 {
		t.Errorf("4.4: %v forced detaches are counted", n)
	}
	r.run()
	if n := r.metric(telemetry.MetricDetachesWaiting, driver, "Detaching"); n != 1 {
		t.Errorf("4.12: %v detaches wait for the attacher", n)
	}
}

// 4.8: the event of a conflict comes once, and again while the conflict lasts.
func TestConflictIsToldAgain(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, append(pair(), node("a", hasListed), node("b"), va("a", true), pod("p", "a"), pod("q", "b"))...)
	for range 3 {
		r.run()
	}
	if !slices.Equal(r.events, []string{"q FailedAttachVolume"}) {
		t.Errorf("events %v", r.events)
	}
	r.clock.Step(5 * time.Minute)
	r.run()
	if len(r.events) != 2 {
		t.Errorf("after five minutes: %v", r.events)
	}
}

// 4.12: an error of the attacher is timed once, not with each look at it.
func TestFailedAttachIsTimedOnce(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, append(pair(), node("a"), pod("p", "a"))...)
	r.run()
	one := &r.attachments()[0]
	one.Status.AttachError = &storagev1.VolumeError{Message: "no"}
	r.must(r.api.Status().Update(t.Context(), one))
	r.Cached.Saw(one)
	r.run()
	r.run()
	if n := r.metric(telemetry.MetricStorageOperation, "false", "volume_attach", "fail-unknown", "kubernetes.io/csi:"+driver); n != 1 {
		t.Errorf("%v failures", n)
	}
	if !slices.Equal(r.events, []string{"p FailedAttachVolume"}) {
		t.Errorf("events %v", r.events)
	}
}

// 4.13 R5: a VolumeAttachment whose volume is gone is deleted by the audit that finds it so a second
// time, unless another program has named it.
func TestAudit(t *testing.T) {
	foreign := va("a", true)
	foreign.Name, foreign.UID = "by-hand", "x"
	r := newRig(t, interceptor.Funcs{}, node("a"), va("a", true), foreign)
	look := func() {
		r.look(t.Context())
		for _, one := range r.attachments() {
			if _, err := r.loop.Reconcile(t.Context(), Key{Driver: driver, Attachment: one.Name}); err != nil {
				t.Fatal(err)
			}
		}
	}
	look()
	for _, one := range r.attachments() {
		if one.DeletionTimestamp != nil {
			t.Errorf("%s is deleted at the first look", one.Name)
		}
	}
	r.clock.Step(time.Minute)
	look()
	for _, one := range r.attachments() {
		if (one.DeletionTimestamp != nil) != (one.Name != "by-hand") {
			t.Errorf("%s: deleted at %v", one.Name, one.DeletionTimestamp)
		}
	}
}

// A VolumeAttachment whose handle has become known is worked on under the key of its volume. Gather
// only reads: the action enqueues the key.
func TestKnownHandleIsEnqueuedByAction(t *testing.T) {
	known := va("a", true)
	known.Annotations = map[string]string{names.AnnVolumeHandle: "h"}
	r := newRig(t, interceptor.Funcs{}, node("a"), known)
	q := reconcile.NewQueue(Name, workqueue.DefaultTypedControllerRateLimiter[Key]())
	defer q.ShutDown()
	r.must(r.start(t.Context(), q))
	key := Key{Driver: driver, Attachment: known.Name}
	s, err := r.Gather(t.Context(), key)
	if err != nil || s.Known == nil || *s.Known != volume || q.Len() != 0 {
		t.Fatalf("known as %v, %d keys in the queue, %v", s.Known, q.Len(), err)
	}
	if _, err := r.loop.Reconcile(t.Context(), key); err != nil || q.Len() != 1 {
		t.Errorf("%d keys in the queue, %v", q.Len(), err)
	}
}
