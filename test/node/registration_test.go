package node

import (
	"testing"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// get reads an object of the cluster by name; false if it is not there.
func (r *rig) get(o client.Object) bool {
	return r.Get(r.t.Context(), client.ObjectKey{Name: nodeName}, o) == nil
}

// ND-9: a Node that was deleted and created again has the driver again, in its annotation and in a
// CSINode of its own; and so has a CSINode that was deleted. There is no garbage collector here, so the
// CSINode of the previous Node stays until the agent replaces it.
func TestNodeIsCreatedAgain(t *testing.T) {
	r := newRig(t)
	r.start()
	r.awaitRegistered()
	node := &corev1.Node{}
	if !r.get(node) {
		t.Fatal("no node")
	}
	if err := r.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	again := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if err := r.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	isRegistered := func() bool {
		now, csiNode := &corev1.Node{}, &storagev1.CSINode{}
		return r.get(now) && now.UID == again.UID && now.Annotations[names.AnnNodeID] != "" && r.get(csiNode) &&
			len(csiNode.Spec.Drivers) == 1 && len(csiNode.OwnerReferences) == 1 && csiNode.OwnerReferences[0].UID == again.UID
	}
	r.eventually("the driver registered on the new Node", isRegistered)
	if err := r.Delete(t.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}); err != nil {
		t.Fatal(err)
	}
	r.eventually("the driver registered in a new CSINode", isRegistered)
	r.volume("data")
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	r.waitPublished(pod)
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
}

// ND-8: the limit of a driver changes, and the CSINode has it after the period of the CSIDriver,
// and after an attachment that the driver refused with ResourceExhausted.
func TestLimitOfVolumesChanges(t *testing.T) {
	r := newRig(t)
	r.proxy.most.Store(7)
	r.start()
	r.awaitRegistered()
	limit := func() int32 {
		csiNode := &storagev1.CSINode{}
		if !r.get(csiNode) || len(csiNode.Spec.Drivers) != 1 || csiNode.Spec.Drivers[0].Allocatable == nil {
			return 0
		}
		return *csiNode.Spec.Drivers[0].Allocatable.Count
	}
	setPeriod := func(seconds int64) {
		t.Helper()
		info := &storagev1.CSIDriver{}
		if err := r.Get(t.Context(), client.ObjectKey{Name: driverName}, info); err != nil {
			t.Fatal(err)
		}
		info.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
		if err := r.Update(t.Context(), info); err != nil {
			t.Fatal(err)
		}
		if info.Spec.NodeAllocatableUpdatePeriodSeconds == nil {
			t.Skip("this API server has no MutableCSINodeAllocatableCount")
		}
	}
	if got := limit(); got != 7 {
		t.Fatalf("registered with the limit %d", got)
	}
	r.proxy.most.Store(6)
	setPeriod(10)
	r.eventually("the limit of the period", func() bool { return limit() == 6 })
	setPeriod(3600)
	r.proxy.most.Store(5)
	exhausted := int32(codes.ResourceExhausted)
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: driverName, NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("none")},
	}}
	r.create(va)
	va.Status.AttachError = &storagev1.VolumeError{Message: "full", ErrorCode: &exhausted}
	if err := r.Status().Update(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	r.eventually("the limit after ResourceExhausted", func() bool { return limit() == 5 })
}
