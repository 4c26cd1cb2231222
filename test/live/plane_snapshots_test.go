package live

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/rolestest"
)

// restoringDriver creates volumes too, and is done with the snapshots of the volumes in ready.
type restoringDriver struct {
	*scriptedDriver
	mu    sync.Mutex
	ready map[string]bool
}

func (d *restoringDriver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: "h-" + r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(), ContentSource: r.GetVolumeContentSource(),
	}}, nil
}

func (d *restoringDriver) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, nil
}

func (d *restoringDriver) finish(volume string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ready[volume] = true
}

func (d *restoringDriver) take(r *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer, err := taken(r)
	answer.Snapshot.ReadyToUse = d.ready[r.GetSourceVolumeId()]
	return answer, err
}

// planeWithSnapshots is a cluster with `plane --with-snapshotter`, whose account has the shipped permissions.
// stop ends it and waits.
func planeWithSnapshots(t *testing.T) (p liveCluster, d *restoringDriver, stop func()) {
	t.Helper()
	p = newLiveCluster(t)
	p.snapshotKinds()
	d = &restoringDriver{scriptedDriver: &scriptedDriver{name: "csi.example"}, ready: map[string]bool{}}
	d.capabilities = []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
	}
	d.self, d.snapshot = d, d.take
	p.create(
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: metav1.ObjectMeta{Name: "class", Annotations: map[string]string{names.AnnDefaultSnapshotClass: "true"}}, Driver: d.name,
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
		},
		&storagev1.StorageClass{ObjectMeta: metav1Name("deck"), Provisioner: d.name},
	)
	for _, role := range []string{"csi-snapshotter", "snapshot-controller"} {
		p.create(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1Name("plane-" + role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "purser-" + role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: process.SystemNamespace, Name: "plane"}},
		})
	}
	role, log := p.plane("--csi-address="+d.serve(t), "--with-snapshotter", "--retry-interval-start=100ms")
	p.awaitGranted("plane", "csi-snapshotter", "snapshot-controller")
	end := rolestest.InBackground(t, role.Run)
	stop = sync.OnceFunc(func() {
		end()
		for _, line := range log.Lines() {
			if strings.Contains(line, "permission") {
				t.Errorf("the shipped roles lack something: %s", line)
			}
		}
	})
	t.Cleanup(stop)
	return p, d, stop
}

// planeClaim is a claim that plane has bound.
func (p liveCluster) planeClaim(name string, from *corev1.TypedObjectReference) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: new("deck"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, DataSourceRef: from,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	p.create(claim)
	await(p, "the claim "+name+" is bound", claim, isBound)
	return claim
}

// volumeOf returns the handle of the volume of a claim.
func (p liveCluster) volumeOf(claim *corev1.PersistentVolumeClaim) string {
	p.Helper()
	pv := &corev1.PersistentVolume{}
	if err := p.user.Get(p.Context(), client.ObjectKey{Name: claim.Spec.VolumeName}, pv); err != nil {
		p.Fatal(err)
	}
	return pv.Spec.CSI.VolumeHandle
}

func (p liveCluster) takesOf(name, claim string) *snapshotv1.VolumeSnapshot {
	p.Helper()
	vs := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       snapshotv1.VolumeSnapshotSpec{Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim}},
	}
	p.create(vs)
	return vs
}

// writes returns the writes of plane between two marks, but for events and Leases.
func (p liveCluster) writes(from, to audit.Mark) map[string]int {
	p.Helper()
	got := map[string]int{}
	for request, answers := range p.asked(from, to, "plane").Where(func(r audit.Request) bool {
		return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && !r.IsEvent() && r.Resource != "leases" &&
			r.Resource != "selfsubjectaccessreviews"
	}) {
		got[request.Verb+" "+request.Resource] += answers.All()
	}
	return got
}

// FL-18, FL-19, FL-21: the writes of one process for a snapshot, a restore and the deletion of the snapshot.
func TestPlaneTakesSnapshots(t *testing.T) {
	p, d, _ := planeWithSnapshots(t)
	claim := p.planeClaim("data", nil)
	d.finish(p.volumeOf(claim))
	await(p, "its condition Unused is written", claim, isTracked)
	begin, _ := p.awaitLogged(0, statusOfPair, p.writes)
	vs := p.takesOf("first", "data")
	await(p, "the snapshot is ready", vs, isUsable)
	want := map[string]int{
		"patch volumesnapshots": 1, "create volumesnapshotcontents": 1, "patch volumesnapshotcontents/status": 1,
		"patch volumesnapshots/status": 1,
	}
	takenAt, got := p.awaitLogged(begin, want, p.writes)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes of a snapshot:\n%s", diff)
	}
	restored := p.planeClaim("restored", fromSnapshot("first"))
	await(p, "its condition Unused is written", restored, isTracked)
	restoredAt, got := p.awaitLogged(takenAt, statusOfPair, p.writes)
	if got["update volumesnapshots"]+got["patch volumesnapshots"] > 0 || got["create persistentvolumes"] != 1 {
		t.Errorf("writes of a restore: %v", got)
	}
	p.removeSnapshot(vs, claim)
	want = map[string]int{
		"delete volumesnapshotcontents": 1, "patch volumesnapshotcontents": 1, "patch volumesnapshots": 1,
	}
	_, got = p.awaitLogged(restoredAt, want, p.writes)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("writes of a deletion:\n%s", diff)
	}
	if d.called("CreateSnapshot") != 1 || d.called("DeleteSnapshot") != 1 {
		t.Errorf("%d calls of CreateSnapshot, %d of DeleteSnapshot", d.called("CreateSnapshot"), d.called("DeleteSnapshot"))
	}
}

// FL-18: the source of a snapshot that is not ready is kept without a finalizer of the snapshot-controller. A
// process that is stopped leaves what the other programs understand.
func TestPlaneKeepsTheSourceOfASnapshot(t *testing.T) {
	p, d, stop := planeWithSnapshots(t)
	claims := map[string]*corev1.PersistentVolumeClaim{}
	for _, name := range []string{"data", "goes", "alone"} {
		claims[name] = p.planeClaim(name, nil)
	}
	kept, ends := p.takesOf("kept", "data"), p.takesOf("ends", "goes")
	for _, vs := range []*snapshotv1.VolumeSnapshot{kept, ends} {
		await(p, "the driver has taken "+vs.Name, vs, func(vs *snapshotv1.VolumeSnapshot) bool {
			return vs.Status != nil && vs.Status.CreationTime != nil
		})
	}
	isFinalized := func(name string) bool {
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(claims[name]), claims[name]); err != nil {
			t.Fatal(err)
		}
		return slices.Contains(claims[name].Finalizers, names.FinalizerSnapshotClaim)
	}
	for _, name := range []string{"goes", "alone"} {
		if err := p.user.Delete(t.Context(), claims[name].DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	rolestest.Eventually(t, "a claim without a snapshot is gone", func() error { return p.gone(claims["alone"]) })
	if isFinalized("goes") || isFinalized("data") {
		t.Error("the claims have the finalizer")
	}
	d.finish(p.volumeOf(claims["goes"]))
	rolestest.Eventually(t, "the claim is gone when its snapshot is ready", func() error { return p.gone(claims["goes"]) })
	await(p, "the snapshot is ready", ends, isUsable)

	stop()
	if !isFinalized("data") {
		t.Error("the claim of a snapshot that is not ready has no finalizer after the end")
	}
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: process.SystemNamespace, Name: names.SnapshotJournalLeasePrefix + "csi-example"}
	if err := p.user.Get(t.Context(), key, lease); err != nil || lease.Annotations[names.AnnIntents] != "" {
		t.Errorf("the journal after the end: %v, %v", lease.Annotations, err)
	}
	d.finish(p.volumeOf(claims["data"]))
	p.csiSnapshotter(append(slices.Clone(quickly), "--csi-address="+d.serve(t), "--retry-interval-start=100ms")...)
	p.snapshotController(quickly...)
	await(p, "the snapshot is ready in other processes", kept, isUsable)
	await(p, "the claim is free", claims["data"], func(c *corev1.PersistentVolumeClaim) bool {
		return !slices.Contains(c.Finalizers, names.FinalizerSnapshotClaim)
	})
}
