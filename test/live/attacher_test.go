package live

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/test/rolestest"
)

// disks is a driver that attaches, and records which volume is published to which node id.
type disks struct {
	scriptedDriver

	at   sync.Mutex
	has  map[string]string // handle -> node id
	err  error             // of the next calls; nil for none
	slow chan struct{}     // ends the detaches; nil for at once
}

// attaching is a cluster with a node on which the driver is registered, and an attacher at work.
func attaching(t *testing.T, args ...string) (liveCluster, *disks) {
	t.Helper()
	d := newDisks(t)
	return d.attaching(t, args...), d
}

func newDisks(t *testing.T) *disks {
	t.Helper()
	d := &disks{has: map[string]string{}}
	d.name = "disk.example.com"
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}
	d.publish = func(r *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		d.at.Lock()
		defer d.at.Unlock()
		if d.err != nil {
			return nil, d.err
		}
		if node, taken := d.has[r.GetVolumeId()]; taken && node != r.GetNodeId() {
			t.Errorf("volume %s is asked for node %s while it is on node %s", r.GetVolumeId(), r.GetNodeId(), node)
		}
		d.has[r.GetVolumeId()] = r.GetNodeId()
		return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": "/dev/x"}}, nil
	}
	d.unpublish = func(r *csi.ControllerUnpublishVolumeRequest) error {
		d.at.Lock()
		slow := d.slow
		d.at.Unlock()
		if slow != nil {
			<-slow
		}
		d.at.Lock()
		defer d.at.Unlock()
		if d.has[r.GetVolumeId()] != r.GetNodeId() {
			return status.Errorf(codes.InvalidArgument, "volume %s is published to %q, not to %q", r.GetVolumeId(), d.has[r.GetVolumeId()], r.GetNodeId())
		}
		delete(d.has, r.GetVolumeId())
		return d.err
	}
	return d
}

func (d *disks) attaching(t *testing.T, args ...string) liveCluster {
	t.Helper()
	p := newLiveCluster(t)
	p.node("node", "i-1", d.name)
	a := attacher.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.AddFlags(flags)
	if err := flags.Parse(append(append(slices.Clone(quickly), "--csi-address="+d.serve(t)), args...)); err != nil || a.Validate() != nil {
		t.Fatal(err, a.Validate())
	}
	a.Version, a.API, a.Log = "test", p.as("csi-attacher"), (&rolestest.Log{}).Logger()
	started := make(chan struct{})
	a.Started = func() { close(started) }
	rolestest.InBackground(t, a.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatal("the attacher does not start")
	}
	return p
}

// node registers a driver on a node, as a kubelet does.
func (p liveCluster) node(name, id, driver string) {
	p.Helper()
	p.create(&storagev1.CSINode{ObjectMeta: metav1Name(name), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driver, NodeID: id}}}})
}

// attachment writes a volume and a VolumeAttachment for it, as the attach-detach controller does.
func (p liveCluster) attachment(name, driver string) *storagev1.VolumeAttachment {
	p.Helper()
	return p.attachmentTo("node", name, driver)
}

func (p liveCluster) attachmentTo(node, name, driver string) *storagev1.VolumeAttachment {
	p.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pv-" + name), Spec: corev1.PersistentVolumeSpec{
		Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle^" + name}},
	}}
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1Name("csi-" + name), Spec: storagev1.VolumeAttachmentSpec{
		Attacher: driver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
	}}
	p.create(pv, va)
	return va
}

func isAttached(va *storagev1.VolumeAttachment) bool { return va.Status.Attached }

// An attach and a detach on a real API server under upstream's permissions: three writes and one,
// one call each, no request in vain (upstream: a publish call 1.2 to 1.7 times, and a write to each
// detached object that is gone already).
func TestAttacherAttachesAndDetaches(t *testing.T) {
	p, d := attaching(t)
	begin := p.mark()
	va := p.attachment("a", d.name)
	await(p, "attached", va, isAttached)
	if va.Status.AttachmentMetadata["device"] != "/dev/x" || va.Annotations[names.AnnAttachedNodeID] != "i-1" || va.Status.AttachError != nil {
		t.Errorf("AT-A12, AT-A14: %+v, %v", va.Status, va.Annotations)
	}
	attached := p.mustWrite(begin, "csi-attacher", map[string]int{
		"patch persistentvolumes": 1, "patch volumeattachments": 1, "patch volumeattachments/status": 1,
	}, 1)
	if err := p.user.Delete(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the VolumeAttachment is gone", func() error { return p.gone(va) })
	p.mustWrite(attached, "csi-attacher", map[string]int{"patch volumeattachments": 1}, 1)
	if publish, unpublish := d.called("ControllerPublishVolume"), d.called("ControllerUnpublishVolume"); publish != 1 || unpublish != 1 || len(d.has) > 0 {
		t.Errorf("%d and %d calls, %v published", publish, unpublish, d.has)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pv-a")}
	if err := p.user.Delete(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "AT-V1: the volume has no finalizer of the attacher", func() error {
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); client.IgnoreNotFound(err) != nil || err != nil {
			return client.IgnoreNotFound(err)
		}
		if slices.Contains(pv.Finalizers, names.AttacherFinalizer(d.name)) {
			return fmt.Errorf("it has %v", pv.Finalizers)
		}
		return nil
	})
}

// AT-H2, AT-H7: the volume is detached from the node id that was published, also when a node with
// the same name was created since, or the PersistentVolume is gone.
func TestAttacherDetachesFromTheNodeThatWasPublished(t *testing.T) {
	p, d := attaching(t)
	va := p.attachment("a", d.name)
	await(p, "attached", va, isAttached)
	node := &storagev1.CSINode{ObjectMeta: metav1Name("node")}
	p.remove(node)
	p.node("node", "i-2", d.name)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name("pv-a")}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		t.Fatal(err)
	}
	before := pv.DeepCopy()
	pv.Finalizers = nil
	if err := p.user.Patch(t.Context(), pv, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	p.remove(pv)
	if err := p.user.Delete(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "the VolumeAttachment is gone", func() error { return p.gone(va) })
	if len(d.has) > 0 {
		t.Errorf("still published: %v", d.has)
	}
}

// AT-A15, AT-A16, AT-H3: the status shows an error with its code, cut to the API server's limit,
// and a later attempt clears it.
func TestAttacherShowsErrors(t *testing.T) {
	p, d := attaching(t, "--retry-interval-start=200ms", "--retry-interval-max=200ms")
	d.err = status.Error(codes.ResourceExhausted, strings.Repeat("too many volumes on this node. ", 100))
	va := p.attachment("a", d.name)
	await(p, "the error is shown", va, func(va *storagev1.VolumeAttachment) bool { return va.Status.AttachError != nil })
	if code := va.Status.AttachError.ErrorCode; code == nil || *code != int32(codes.ResourceExhausted) {
		t.Errorf("AT-G3: %v", code)
	}
	d.at.Lock()
	d.err = nil
	d.at.Unlock()
	await(p, "attached", va, func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached && va.Status.AttachError == nil })
}

// AT-H1: while the driver is not registered on the node, no error is written. Its registration
// enqueues the attachment.
func TestAttacherWaitsForTheNode(t *testing.T) {
	p, d := attaching(t, "--retry-interval-start=1h", "--retry-interval-max=1h")
	va := p.attachmentTo("late", "a", d.name) // the deletion of a CSINode could reach the cache after it
	p.node("late", "i-3", d.name)
	await(p, "attached", va, isAttached)
	if va.Status.AttachError != nil || d.has["handle^a"] != "i-3" {
		t.Errorf("%+v, %v", va.Status, d.has)
	}
}
