package attacher

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/names"
)

// AT-A4, AT-A12 to AT-A14, AT-D5, AT-D7, AT-V1: an attachment and its end, one call each, and the
// finalizer of the volume after it.
func TestAttachAndDetach(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, clusterWith(va("a"))...)
	r.run("a")
	r.run("a")
	one := r.attachment("a")
	if !one.Status.Attached || one.Annotations[names.AnnAttachedNodeID] != "id-a" || one.Annotations[names.AnnVolumeHandle] != "h" {
		t.Errorf("%+v", one)
	}
	finalizer := names.AttacherFinalizer(driver)
	if !slices.Contains(one.Finalizers, finalizer) || !slices.Contains(r.volume().Finalizers, finalizer) {
		t.Errorf("finalizers %v, of the volume %v", one.Finalizers, r.volume().Finalizers)
	}
	volumes := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(volumes.ShutDown)
	r.must(volumeFinalizer{r.Controller}.start(t.Context(), volumes))
	r.must(r.api.Delete(t.Context(), r.volume()))
	r.must(r.api.Delete(t.Context(), one))
	if _, err := (volumeFinalizer{r.Controller}).Reconcile(t.Context(), "pv"); err != nil || len(r.volume().Finalizers) != 1 {
		t.Errorf("AT-V2: %v, finalizers of the attached volume %v", err, r.volume().Finalizers)
	}
	r.run("a")
	if want := []string{"publish h to id-a", "unpublish h from id-a"}; !slices.Equal(r.disks.called(), want) {
		t.Errorf("calls %v", r.disks.called())
	}
	if err := r.api.Get(t.Context(), client.ObjectKeyFromObject(one), one); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the attachment is there: %v, %+v", err, one)
	}
	if volumes.Len() != 1 {
		t.Fatal("the volume is not looked at after the end of the attachment, which the watch may not deliver")
	}
	if _, err := (volumeFinalizer{r.Controller}).Reconcile(t.Context(), "pv"); err != nil {
		t.Fatal(err)
	}
	pv := &corev1.PersistentVolume{}
	if err := r.api.Get(t.Context(), client.ObjectKey{Name: "pv"}, pv); err == nil {
		t.Errorf("AT-V1: the volume has the finalizers %v", pv.Finalizers)
	}
}

// AT-H11: of two attachments that are worked on at the same time, one gets the finalizer and the call. The
// other one waits for its turn without a worker.
func TestTwoAttachmentsAtOnce(t *testing.T) {
	var r *rig
	r = newRig(t, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == "a" {
				r.run("b") // while the other one is about to be prepared
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	}, clusterWith(va("a"), va("b"))...)
	r.run("a")
	if r.queue.Len() != 1 {
		t.Fatalf("%d attachments have their turn", r.queue.Len())
	}
	r.run("b")
	a, b := r.attachment("a"), r.attachment("b")
	if len(r.disks.called()) != 1 || a.Status.Attached == b.Status.Attached || len(a.Finalizers)+len(b.Finalizers) != 1 {
		t.Errorf("calls %v, attached %t and %t, finalizers %v and %v", r.disks.called(), a.Status.Attached, b.Status.Attached, a.Finalizers, b.Finalizers)
	}
	if (a.Status.AttachError == nil) == (b.Status.AttachError == nil) {
		t.Errorf("errors %v and %v", a.Status.AttachError, b.Status.AttachError)
	}
}

// AT-L4, AT-L7: an attachment that the driver lists nowhere is published again, at once with each
// comparison, until that succeeds.
func TestCompare(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, clusterWith(va("a", attached))...)
	r.disks.err = status.Error(codes.Internal, "no")
	for range 3 {
		r.must(r.compare(t.Context()))
		r.run("a")
		r.run("a") // not due before the next comparison
	}
	if n := len(r.disks.called()); n != 3 || r.attachment("a").Status.AttachError == nil {
		t.Errorf("%d calls, status %+v", n, r.attachment("a").Status)
	}
	r.disks.err = nil
	r.clock.Step(time.Hour)
	r.run("a")
	r.run("a")
	if one := r.attachment("a"); len(r.disks.called()) != 4 || one.Status.AttachError != nil {
		t.Errorf("AT-H6: %d calls, status %+v", len(r.disks.called()), one.Status)
	}
	r.must(r.compare(t.Context()))
	r.run("a")
	if n := len(r.disks.called()); n != 4 {
		t.Errorf("%d calls after the driver lists the volume", n)
	}
}

// AT-L8: an attachment that changes while the driver lists is not compared with that list.
func TestCompareDuringAttach(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, clusterWith(va("a"))...)
	r.disks.listed = func() { r.run("a") }
	r.must(r.compare(t.Context()))
	r.run("a")
	if n := len(r.disks.called()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// AT-L8: nor is one whose attach ends while it is compared.
func TestCompareAtTheEndOfAnAttach(t *testing.T) {
	var r *rig
	ends := false
	r = newRig(t, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, is := o.(*storagev1.CSINode); is && ends {
				ends = false
				r.run("a")
			}
			return c.Get(ctx, key, o, opts...)
		},
	}, clusterWith(va("a"))...)
	r.disks.at["h"] = "id-a" // the call has arrived, and its answer has not
	r.disks.listed = func() { ends = true }
	r.must(r.compare(t.Context()))
	r.run("a")
	if n := len(r.disks.called()); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// AT-A5, AT-A7: a volume of an in-tree plugin has its finalizer written to the object as it is, and
// an inline volume has none.
func TestMigratedVolumes(t *testing.T) {
	const cinder = "cinder.csi.openstack.org"
	all := clusterWith(
		va("a", func(v *storagev1.VolumeAttachment) { v.Spec.Attacher = cinder }),
		va("b", func(v *storagev1.VolumeAttachment) {
			v.Spec.Attacher, v.Spec.Source = cinder, storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: cinder, VolumeHandle: "in-place"}},
			}}
		}))
	all[0].(*corev1.PersistentVolume).Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
		Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "disk"},
	}
	for _, o := range all[1:3] {
		o.(*storagev1.CSINode).Spec.Drivers[0].Name = cinder
	}
	r := newRig(t, interceptor.Funcs{}, all...)
	r.Driver.Name = cinder
	r.run("a")
	r.run("b")
	if want := []string{"publish disk to id-a", "publish in-place to id-b"}; !slices.Equal(r.disks.called(), want) {
		t.Errorf("calls %v", r.disks.called())
	}
	pv := r.volume()
	if pv.Spec.CSI != nil || pv.Spec.Cinder == nil || !slices.Contains(pv.Finalizers, names.AttacherFinalizer(cinder)) {
		t.Errorf("the volume is %+v", pv)
	}
	for _, name := range []string{"a", "b"} {
		s, err := r.Gather(t.Context(), name)
		if one := r.attachment(name); !one.Status.Attached || !s.Migrated || err != nil {
			t.Errorf("%s: %+v, migrated %t, %v", name, one.Status, s.Migrated, err)
		}
	}
}

// AT-H2, AT-A12: what is handed over before it is created has what a detach needs, unless the volume
// cannot be attached or the driver attaches nothing.
func TestPrepareBeforeCreate(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, clusterWith()...)
	for row, tc := range map[string]struct {
		edit     func(*storagev1.VolumeAttachment)
		driver   publishing.Driver
		prepared bool
	}{
		"as it comes":                    {func(*storagev1.VolumeAttachment) {}, r.Driver, true},
		"a node without the driver":      {func(v *storagev1.VolumeAttachment) { v.Spec.NodeName = "x" }, r.Driver, false},
		"a driver that attaches nothing": {func(*storagev1.VolumeAttachment) {}, publishing.Driver{Name: driver}, false},
	} {
		r.Driver = tc.driver
		one := va("a", tc.edit)
		r.must(r.Prepare(t.Context(), one))
		if (len(one.Finalizers) == 1 && one.Annotations[names.AnnAttachedNodeID] == "id-a") != tc.prepared {
			t.Errorf("%s: %v, %v", row, one.Finalizers, one.Annotations)
		}
	}
}

// AT-Q3: a deletion ends the delay of an attach that failed, and a change of the error does not.
func TestDeletionEndsTheDelay(t *testing.T) {
	r := newRig(t, interceptor.Funcs{}, clusterWith(va("a"))...)
	r.disks.err = status.Error(codes.Internal, "no")
	r.run("a")
	r.run("a")
	if n := len(r.disks.called()); n != 1 {
		t.Fatalf("%d calls before the delay is over", n)
	}
	r.disks.err = nil
	r.must(r.api.Delete(t.Context(), r.attachment("a")))
	r.run("a")
	if want := []string{"publish h to id-a", "unpublish h from id-a"}; !slices.Equal(r.disks.called(), want) {
		t.Errorf("calls %v", r.disks.called())
	}
}
