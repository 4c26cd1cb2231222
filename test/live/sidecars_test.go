package live

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/sidecars"
	"github.com/purser-csi/purser/test/rolestest"
)

// capable is a driver that creates, attaches, expands and snapshots volumes.
type capable struct{ *scriptedDriver }

func (capable) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: "v " + r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
	}}, nil
}

// sidecars starts the role with the permissions of deploy/optional/sidecars.yaml, and returns its address.
func (p liveCluster) sidecars(socket string, args ...string) (address string) {
	p.Helper()
	manifest, err := os.Open(filepath.Join("..", "..", "deploy", "optional", "sidecars.yaml"))
	if err != nil {
		p.Fatal(err)
	}
	defer manifest.Close()
	if err := p.setup.Apply(p.Context(), manifest.Name(), manifest); err != nil {
		p.Fatal(err)
	}
	s := sidecars.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	s.AddFlags(flags)
	args = slices.Concat(quickly, []string{"--csi-address=" + socket}, args)
	if err := errors.Join(flags.Parse(args), s.Validate()); err != nil {
		p.Fatal(err)
	}
	started := make(chan struct{})
	s.Listened = func(a net.Addr) { address = a.String() } // before it has started
	s.Version, s.API, s.Log, s.Started = "test", p.as("sidecars"), (&rolestest.Log{}).Logger(), func() { close(started) }
	rolestest.InBackground(p.T, s.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		p.Fatal("the sidecars do not start")
	}
	return address
}

// One process beside one driver provisions, expands, attaches and takes a snapshot, each with one
// call, under the union of upstream's permissions.
func TestSidecarsInOneProcess(t *testing.T) {
	p, d := newLiveCluster(t), &scriptedDriver{name: "all.example.com"}
	p.snapshotKinds()
	d.self = capable{d}
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	}
	d.expand = func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
	}
	d.publish = func(*csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	d.snapshot = taken
	p.node("node", "i-1", d.name)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name, AllowVolumeExpansion: new(true)})
	p.sidecars(d.serve(t))

	asking := p.claim("asking", new("growing"))
	before := asking.DeepCopy()
	asking.Annotations = map[string]string{names.AnnStorageProvisioner: d.name}
	if err := p.user.Patch(t.Context(), asking, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	await(p, "its volume is written", &corev1.PersistentVolume{ObjectMeta: metav1Name("pvc-" + string(asking.UID))},
		func(pv *corev1.PersistentVolume) bool { return pv.Spec.CSI.VolumeHandle == "v pvc-"+string(asking.UID) })

	bound := p.boundPair("data", d.name)
	p.ask(bound, "2Gi")
	await(p, "the claim has 2Gi", bound, hasSize("2Gi"))

	va := &storagev1.VolumeAttachment{ObjectMeta: metav1Name("va"), Spec: storagev1.VolumeAttachmentSpec{
		Attacher: d.name, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-data")},
	}}
	p.create(va)
	await(p, "the volume is attached", va, func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached })

	p.create(&snapshotv1.VolumeSnapshotClass{
		ObjectMeta: metav1Name("class"), Driver: d.name, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
	})
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{
		Name: "content", Finalizers: []string{names.FinalizerSnapshotContent},
	}, Spec: snapshotv1.VolumeSnapshotContentSpec{
		Driver: d.name, VolumeSnapshotClassName: new("class"), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete, Source: snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("h-data")},
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: "snap", UID: "uid-of-snap"},
	}}
	p.create(content)
	await(p, "the snapshot is ready", content, func(c *snapshotv1.VolumeSnapshotContent) bool {
		return c.Status != nil && c.Status.ReadyToUse != nil && *c.Status.ReadyToUse
	})
	for _, method := range []string{"CreateVolume", "ControllerExpandVolume", "ControllerPublishVolume", "CreateSnapshot"} {
		if n := d.called(method); n != 1 {
			t.Errorf("%d calls of %s, want 1", n, method)
		}
	}
}

// partlyBroken is a driver whose node service does not say its capabilities, which the resizer asks for.
type partlyBroken struct {
	*scriptedDriver
	broken atomic.Bool
}

func (d *partlyBroken) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	if d.broken.Load() {
		return nil, status.Error(codes.Internal, "no answer")
	}
	expands := &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: csi.NodeServiceCapability_RPC_EXPAND_VOLUME}}
	return &csi.NodeGetCapabilitiesResponse{Capabilities: []*csi.NodeServiceCapability{{Type: expands}}}, nil
}

// OC-12: a component whose first calls fail says so, the others work meanwhile, and it starts when the driver
// answers.
func TestOneComponentFails(t *testing.T) {
	p, d := newLiveCluster(t), &partlyBroken{scriptedDriver: &scriptedDriver{name: "partly.example.com"}}
	d.broken.Store(true)
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}
	d.publish = func(*csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
		return &csi.ControllerPublishVolumeResponse{}, nil
	}
	d.nodes = d
	p.node("node", "i-1", d.name)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name, AllowVolumeExpansion: new(true)})
	address := p.sidecars(d.serve(t), "--without=snapshotter")

	bound := p.boundPair("data", d.name)
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1Name("va"), Spec: storagev1.VolumeAttachmentSpec{
		Attacher: d.name, NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-data")},
	}}
	p.create(va)
	await(p, "the volume is attached", va, func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached })
	for path, healthy := range map[string]bool{"/healthz/attacher": true, "/healthz/resizer": false, "/readyz": false, "/healthz": true} {
		if err := ok(t, "http://"+address+path); (err == nil) != healthy {
			t.Errorf("%s: %v", path, err)
		}
	}
	p.ask(bound, "2Gi")
	d.broken.Store(false)
	await(p, "the claim waits for the node", bound, func(claim *corev1.PersistentVolumeClaim) bool {
		return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
			return c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
		})
	})
	rolestest.Eventually(t, "the resizer is healthy", func() error {
		return errors.Join(ok(t, "http://"+address+"/healthz/resizer"), ok(t, "http://"+address+"/readyz"))
	})
}
