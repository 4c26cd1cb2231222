package live

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/spf13/pflag"
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

// sidecars starts the role with the permissions of deploy/optional/sidecars.yaml.
func (p liveCluster) sidecars(socket string) {
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
	if err := errors.Join(flags.Parse(append(slices.Clone(quickly), "--csi-address="+socket)), s.Validate()); err != nil {
		p.Fatal(err)
	}
	started := make(chan struct{})
	s.Version, s.API, s.Log, s.Started = "test", p.as("sidecars"), (&rolestest.Log{}).Logger(), func() { close(started) }
	rolestest.InBackground(p.T, s.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		p.Fatal("the sidecars do not start")
	}
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
