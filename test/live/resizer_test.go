package live

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/pflag"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/test/rolestest"
)

// resizer returns the role, not started, with the shipped permissions.
func (p liveCluster) resizer(socket string, args ...string) *resizer.Resizer {
	p.Helper()
	r := resizer.New()
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.AddFlags(flags)
	if err := flags.Parse(append(append(slices.Clone(quickly), "--csi-address="+socket), args...)); err != nil || r.Validate() != nil {
		p.Fatal(err, r.Validate())
	}
	r.Version, r.API, r.Log = "test", p.as("csi-resizer"), (&rolestest.Log{}).Logger()
	return r
}

// ask edits the size of a claim as a user does.
func (p liveCluster) ask(claim *corev1.PersistentVolumeClaim, size string) {
	p.Helper()
	before := claim.DeepCopy()
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	if err := p.user.Patch(p.Context(), claim, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
}

// boundPair writes a claim of 1Gi and its volume as a binder leaves them. The claim names the volume
// from the start, so that a provisioner which runs meanwhile provisions none.
func (p liveCluster) boundPair(name, driver string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim := claimOf(name, new("growing"))
	claim.Spec.VolumeName = "pv-" + name
	p.create(claim)
	p.create(&corev1.PersistentVolume{ObjectMeta: metav1Name("pv-" + name), Spec: corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: "growing",
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h-" + name}},
	}})
	before := claim.DeepCopy()
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, claim.Spec.Resources.Requests, claim.Spec.AccessModes
	if err := p.user.Status().Patch(p.Context(), claim, client.MergeFrom(before)); err != nil {
		p.Fatal(err)
	}
	return claim
}

// growing is a cluster with a class that allows expansion, and a resizer at work beside the driver.
func growing(t *testing.T, d *scriptedDriver, args ...string) liveCluster {
	t.Helper()
	p := newLiveCluster(t)
	d.name, d.capabilities = "csi.example", []csi.ControllerServiceCapability_RPC_Type{csi.ControllerServiceCapability_RPC_EXPAND_VOLUME}
	if d.self != nil {
		d.capabilities = append(d.capabilities, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name, AllowVolumeExpansion: new(true)})
	started := make(chan struct{})
	r := p.resizer(d.serve(t), args...)
	r.Started = func() { close(started) }
	rolestest.InBackground(t, r.Run)
	select {
	case <-started:
	case <-time.After(time.Minute):
		t.Fatal("the resizer does not start")
	}
	return p
}

func hasSize(size string) func(*corev1.PersistentVolumeClaim) bool {
	want := resource.MustParse(size)
	return func(c *corev1.PersistentVolumeClaim) bool { return c.Status.Capacity.Storage().Cmp(want) == 0 }
}

func hasState(state corev1.ClaimResourceStatus) func(*corev1.PersistentVolumeClaim) bool {
	return func(c *corev1.PersistentVolumeClaim) bool {
		return c.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == state
	}
}

// An expansion on a real API server under upstream's permissions: three writes, one call and no
// read, besides the lease.
func TestResizerExpands(t *testing.T) {
	d := &scriptedDriver{expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
	}}
	p := growing(t, d)
	claim := p.boundPair("data", d.name)
	begin := p.mark()
	p.ask(claim, "2Gi")
	await(p, "the claim has 2Gi", claim, hasSize("2Gi"))
	if len(claim.Status.AllocatedResourceStatuses) > 0 || claim.Annotations[names.AnnNodeExpansionNotRequired] != "true" {
		t.Errorf("RZ-X7: status %+v, annotations %v", claim.Status, claim.Annotations)
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil || pv.Spec.Capacity.Storage().String() != "2Gi" {
		t.Errorf("the PersistentVolume has %s, %v", pv.Spec.Capacity.Storage(), err)
	}
	rolestest.Eventually(t, "both events of the expansion", func() error { return p.events(claim, "Resizing", "VolumeResizeSuccessful") })
	p.mustWrite(begin, "csi-resizer", map[string]int{
		"patch persistentvolumeclaims/status": 2, "patch persistentvolumes": 1,
	}, 1)
	if calls := d.called("ControllerExpandVolume"); calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

// KEP-1790: the driver refuses a size with a final error. The claim recovers with a smaller size,
// and the node finishes the expansion.
func TestResizerRecovers(t *testing.T) {
	d := &scriptedDriver{expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		if bytes := r.GetCapacityRange().GetRequiredBytes(); bytes <= 3<<30 {
			return &csi.ControllerExpandVolumeResponse{CapacityBytes: bytes, NodeExpansionRequired: true}, nil
		}
		return nil, status.Error(codes.OutOfRange, "the pool has 3Gi")
	}}
	p := growing(t, d)
	claim := p.boundPair("data", d.name)
	p.ask(claim, "100Ti")
	await(p, "the size is infeasible", claim, hasState(corev1.PersistentVolumeClaimControllerResizeInfeasible))
	if !slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimControllerResizeError && strings.Contains(c.Message, "the pool has 3Gi")
	}) {
		t.Errorf("RZ-X8: no condition has the driver's words: %+v", claim.Status.Conditions)
	}
	if calls := d.called("ControllerExpandVolume"); calls != 1 {
		t.Errorf("RZ-D13: %d calls for a size that was refused, want 1", calls)
	}
	p.ask(claim, "3Gi")
	await(p, "the node is to go on", claim, hasState(corev1.PersistentVolumeClaimNodeResizePending))
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
	if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil || pv.Annotations[names.AnnPreResizeCapacity] != "1Gi" {
		t.Errorf("RZ-X5: annotations %v, %v", pv.Annotations, err)
	}
	rolestest.Eventually(t, "events", func() error { return p.events(claim, "VolumeResizeFailed", "FileSystemResizeRequired") })
	before := claim.DeepCopy() // as the kubelet does (RZ-K2)
	claim.Status.Capacity, claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = claim.Spec.Resources.Requests, nil, nil
	if err := p.user.Status().Patch(t.Context(), claim, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	rolestest.Eventually(t, "RZ-D1: the annotation goes", func() error {
		if err := p.user.Get(t.Context(), client.ObjectKeyFromObject(pv), pv); err != nil {
			return err
		}
		if _, left := pv.Annotations[names.AnnPreResizeCapacity]; left {
			return errors.New("it is still there")
		}
		return nil
	})
}

// RZ-D12: for a driver that only expands offline, the call is retried when the last pod has ended,
// however long the backoff is.
func TestResizerWaitsForPods(t *testing.T) {
	inUse := &atomic.Bool{}
	inUse.Store(true)
	d := &scriptedDriver{expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		if inUse.Load() {
			return nil, status.Error(codes.FailedPrecondition, "the volume is in use")
		}
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
	}}
	p := growing(t, d, "--retry-interval-start=1h", "--retry-interval-max=1h")
	claim := p.boundPair("data", d.name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "user"}, Spec: corev1.PodSpec{
		NodeName: "node", Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(0)),
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}},
	}}
	p.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Namespace, Name: "default"}}, pod)
	p.ask(claim, "2Gi")
	rolestest.Eventually(t, "the failure has an event", func() error { return p.events(claim, "VolumeResizeFailed") })
	inUse.Store(false)
	if err := p.user.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	await(p, "the claim has 2Gi", claim, hasSize("2Gi"))
}

// events returns an error unless the object has an event of each reason.
func (p liveCluster) events(about client.Object, reasons ...string) error {
	var list corev1.EventList
	if err := p.user.List(p.Context(), &list, client.InNamespace(about.GetNamespace())); err != nil {
		return err
	}
	var have []string
	for _, e := range list.Items {
		if e.InvolvedObject.UID == about.GetUID() {
			have = append(have, e.Reason)
		}
	}
	var missing []error
	for _, reason := range reasons {
		if !slices.Contains(have, reason) {
			missing = append(missing, fmt.Errorf("no event %s among %v", reason, have))
		}
	}
	return errors.Join(missing...)
}

func metav1Name(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// The resizer in one process with the provisioner and the controllers: a claim grows with the three
// writes and the one call of csi-resizer, under the permissions of the plane.
func TestPlaneExpands(t *testing.T) {
	d := &scriptedDriver{name: "csi.example", capabilities: []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	}, expand: func(r *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
		return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.GetCapacityRange().GetRequiredBytes()}, nil
	}}
	p := newLiveCluster(t)
	plane, log := p.plane("--csi-address=" + d.serve(t))
	rolestest.InBackground(t, plane.Run)
	p.create(&storagev1.StorageClass{ObjectMeta: metav1Name("growing"), Provisioner: d.name, AllowVolumeExpansion: new(true)})
	claim := p.boundPair("data", d.name)
	await(p, "the binder has ended, and the condition Unused is written", claim, func(c *corev1.PersistentVolumeClaim) bool {
		return isTracked(c) && c.Annotations[names.AnnBindCompleted] != ""
	})
	// The binder writes the volume's phase, in any order with the claim.
	pv := &corev1.PersistentVolume{ObjectMeta: metav1Name(claim.Spec.VolumeName)}
	await(p, "the volume is bound", pv, func(pv *corev1.PersistentVolume) bool {
		return pv.Status.Phase == corev1.VolumeBound
	})
	begin, _ := p.awaitLogged(0, statusOfPair, p.writes)
	p.ask(claim, "2Gi")
	await(p, "the claim has 2Gi", claim, hasSize("2Gi"))
	rolestest.Eventually(t, "the events of csi-resizer", func() error { return p.events(claim, "Resizing", "VolumeResizeSuccessful") })
	p.mustWrite(begin, "plane", map[string]int{
		"patch persistentvolumeclaims/status": 2, "patch persistentvolumes": 1,
	}, 1)
	if calls := d.called("ControllerExpandVolume"); calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
	for _, line := range log.Lines() {
		if strings.Contains(line, "permission") {
			t.Errorf("the shipped roles lack something: %s", line)
		}
	}
}
