package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/rolestest"
)

// copier is a driver in this process whose CreateVolume is a function of the test.
type copier struct {
	scriptedDriver

	mu       sync.Mutex
	create   func(*csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error)
	requests []*csi.CreateVolumeRequest
	deleted  []string
}

func (d *copier) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.mu.Lock()
	d.requests = append(d.requests, r)
	d.mu.Unlock()
	if d.create != nil {
		return d.create(r)
	}
	return made(r)
}

func (d *copier) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deleted = append(d.deleted, r.GetVolumeId())
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *copier) last() *csi.CreateVolumeRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.requests) == 0 {
		return nil
	}
	return d.requests[len(d.requests)-1]
}

func made(r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: "vol-" + r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), ContentSource: r.GetVolumeContentSource(),
	}}, nil
}

// newCopier returns a cluster with the binder, the provisioner and a driver that can clone, each
// with its own permissions. There is no snapshotter: the test writes its objects.
func newCopier(t *testing.T, d *copier, provisioner string) copying {
	t.Helper()
	return copierOn(newLiveCluster(t), d, provisioner)
}

// copierOn is newCopier on an existing cluster; the arguments are the provisioner's.
func copierOn(p liveCluster, d *copier, provisioner string, args ...string) copying {
	p.Helper()
	c := copying{liveCluster: p}
	c.snapshotKinds()
	d.self = d
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	}
	binder, _, _ := c.controllers()
	role, address := liveProvisioner(p.T, c.as("csi-provisioner"), d.serve(p.T), append([]string{
		"--leader-election-namespace=purser-system", "--retry-interval-start=100ms", "--retry-interval-max=1s",
	}, args...)...)
	rolestest.InBackground(p.T, binder.Run)
	rolestest.InBackground(p.T, role.Run)
	c.create(&storagev1.StorageClass{ObjectMeta: metav1Name("deck"), Provisioner: provisioner})
	c.metrics = func() map[string]*dto.MetricFamily { return scrape(p.T, address()+"/metrics") }
	return c
}

// ready is a VolumeSnapshot of one mebibyte with its content, as a snapshotter leaves them.
func (c copying) ready(name, driver string) *snapshotv1.VolumeSnapshot {
	c.Helper()
	content := "content-" + name
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{VolumeSnapshotContentName: &content}},
	}
	c.create(vs)
	one := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1Name(content), Spec: snapshotv1.VolumeSnapshotContentSpec{
		Driver: driver, DeletionPolicy: snapshotv1.VolumeSnapshotContentRetain,
		Source:            snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("handle-" + name)},
		VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: name, UID: vs.UID},
	}}
	c.create(one)
	one.Status = &snapshotv1.VolumeSnapshotContentStatus{SnapshotHandle: new("handle-" + name), ReadyToUse: new(true)}
	vs.Status = &snapshotv1.VolumeSnapshotStatus{
		BoundVolumeSnapshotContentName: &content, ReadyToUse: new(true), RestoreSize: new(resource.MustParse("1Mi")),
	}
	if err := errors.Join(c.user.Status().Update(c.Context(), one), c.user.Status().Update(c.Context(), vs)); err != nil {
		c.Fatal(err)
	}
	return vs
}

func (c copying) called(d *copier, calls int) {
	c.Helper()
	rolestest.Eventually(c.T, fmt.Sprintf("%d calls of CreateVolume", calls), func() error {
		if n := d.called("CreateVolume"); n < calls {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
}

// A snapshot and a claim that are deleted while volumes are made from them stay until that is done.
func TestSourcesStayWhileTheyAreUsed(t *testing.T) {
	goOn := make(chan struct{})
	d := &copier{scriptedDriver: scriptedDriver{name: "copy.example"}}
	d.create = func(r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
		if r.GetVolumeContentSource() != nil {
			<-goOn
		}
		return made(r)
	}
	c := newCopier(t, d, d.name)
	shot, data := c.ready("shot", d.name), c.claimOf("data", "1Mi", nil)
	await(c.liveCluster, "the source is bound", data, isBound)
	restored, cloned := c.claimOf("restored", "1Mi", fromSnapshot("shot")), c.claimOf("cloned", "2Mi", fromClaim("data"))
	c.called(d, 3)
	for o, finalizer := range map[client.Object]string{shot: names.FinalizerRestoreSource, data: names.FinalizerCloneSource} {
		if err := c.user.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := c.user.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || !slices.Contains(o.GetFinalizers(), finalizer) {
			t.Errorf("%s: %v, finalizers %v", o.GetName(), err, o.GetFinalizers())
		}
	}
	close(goOn)
	await(c.liveCluster, "restored", restored, isBound)
	await(c.liveCluster, "cloned", cloned, isBound)
	c.gone(shot)
	c.gone(data)
	if n := d.called("CreateVolume"); n != 3 {
		t.Errorf("%d calls of CreateVolume, want 3", n)
	}
}

// of two restores one fails. The snapshot stays for it until its claim is deleted.
func TestOneRestoreOfTwoFails(t *testing.T) {
	d := &copier{scriptedDriver: scriptedDriver{name: "copy.example"}}
	d.create = func(r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
		if r.GetCapacityRange().GetRequiredBytes() > 1<<20 {
			return nil, status.Error(codes.OutOfRange, "too large")
		}
		return made(r)
	}
	c := newCopier(t, d, d.name)
	shot := c.ready("shot", d.name)
	good, bad := c.claimOf("good", "1Mi", fromSnapshot("shot")), c.claimOf("bad", "2Mi", fromSnapshot("shot"))
	await(c.liveCluster, "restored", good, isBound)
	c.called(d, 3)
	if err := errors.Join(c.user.Delete(t.Context(), shot), c.user.Get(t.Context(), client.ObjectKeyFromObject(shot), shot)); err != nil {
		t.Fatalf("the snapshot is gone, and a claim waits for it: %v", err)
	}
	c.remove(bad)
	c.gone(shot)
	c.remove(good)
	c.nothingOf(good, bad)
}

// nothingOf fails the test unless the PersistentVolumes of the claims are deleted.
func (c copying) nothingOf(claims ...*corev1.PersistentVolumeClaim) {
	c.Helper()
	rolestest.Eventually(c.T, "no volume is left", func() error {
		var all corev1.PersistentVolumeList
		if err := c.user.List(c.Context(), &all); err != nil || len(all.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d of %d", len(all.Items), len(claims)))
		}
		return nil
	})
}

// P-13, RB-10: a VolumeAttributesClass that is created after its claim, with the shipped
// permissions. A claim for a volume populator is not provisioned.
func TestAttributesAndPopulators(t *testing.T) {
	d := &copier{scriptedDriver: scriptedDriver{name: "copy.example"}}
	c := newCopier(t, d, d.name)
	claim := c.claimOf("data", "1Mi", nil)
	await(c.liveCluster, "bound", claim, isBound)
	gold := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "golden"}, Spec: *claim.Spec.DeepCopy()}
	gold.Spec.VolumeName, gold.Spec.VolumeAttributesClassName = "", new("gold")
	c.create(gold)
	rolestest.Eventually(t, "an event names the missing class", func() error { return c.events(gold, "ProvisioningFailed") })
	c.create(&storagev1.VolumeAttributesClass{ObjectMeta: metav1Name("gold"), DriverName: d.name, Parameters: map[string]string{"iops": "9"}})
	await(c.liveCluster, "bound", gold, isBound)
	if got := d.last().GetMutableParameters()["iops"]; got != "9" {
		t.Errorf("R-8: %v", d.last())
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(gold.Spec.VolumeName)}
	if err := c.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil || *pv.Spec.VolumeAttributesClassName != "gold" {
		t.Errorf("P-13: %v, %v", pv.Spec.VolumeAttributesClassName, err)
	}
	backup := c.claimOf("backup", "1Mi", &corev1.TypedObjectReference{APIGroup: new("backups.example"), Kind: "Backup", Name: "b"})
	rolestest.Eventually(t, "EV-6", func() error { return c.events(backup, "Provisioning") })
	if n := d.called("CreateVolume"); n != 2 {
		t.Errorf("%d calls of CreateVolume, want 2", n)
	}
}

// M-3 to M-7: a claim of an in-tree class gets an in-tree volume, is cloned, and is deleted again.
func TestMigratedVolumes(t *testing.T) {
	d := &copier{scriptedDriver: scriptedDriver{name: "ebs.csi.aws.com"}}
	c := newCopier(t, d, "kubernetes.io/aws-ebs")
	data := c.claimOf("data", "1Gi", nil)
	await(c.liveCluster, "bound", data, isBound)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(data.Spec.VolumeName)}
	if err := c.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
		t.Fatal(err)
	}
	handle := "vol-" + pv.Name
	if ebs := pv.Spec.AWSElasticBlockStore; ebs == nil || ebs.VolumeID != handle || pv.Annotations[names.AnnProvisionedBy] != "kubernetes.io/aws-ebs" {
		t.Errorf("M-5: %+v, %v", pv.Spec.PersistentVolumeSource, pv.Annotations)
	}
	cloned := c.claimOf("cloned", "1Gi", fromClaim("data"))
	await(c.liveCluster, "cloned", cloned, isBound)
	if got := d.last().GetVolumeContentSource().GetVolume().GetVolumeId(); got != handle {
		t.Errorf("M-7: cloned from %q", got)
	}
	c.remove(data, cloned)
	c.nothingOf(data, cloned)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.requests) != 2 || len(d.deleted) != 2 || !slices.Contains(d.deleted, handle) {
		t.Errorf("M-6: %d volumes were made, deleted are %v", len(d.requests), d.deleted)
	}
	migrated := map[string]uint64{} // calls by method and label
	for _, line := range c.metrics()["csi_sidecar_operations_seconds"].GetMetric() {
		labels := map[string]string{}
		for _, label := range line.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		migrated[labels["method_name"]+" "+labels["migrated"]] += line.GetHistogram().GetSampleCount()
	}
	for call, want := range map[string]uint64{
		"/csi.v1.Controller/CreateVolume true": 2, "/csi.v1.Controller/DeleteVolume true": 2, "/csi.v1.Controller/DeleteVolume false": 0,
	} {
		if migrated[call] != want {
			t.Errorf("ME-4, M-4: %d calls of %s, want %d", migrated[call], call, want)
		}
	}
}
