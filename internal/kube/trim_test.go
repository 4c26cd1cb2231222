package kube

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csispec"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

const driver = "csi.example"

// fullMeta has a value in every field that the API server or a user fills.
func fullMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, UID: "uid-of-it", ResourceVersion: "7", Generation: 2, GenerateName: "g", CreationTimestamp: metav1.Unix(1, 0),
		Labels: map[string]string{"l": "v"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		Finalizers: []string{names.FinalizerPVProtection, names.FinalizerVolume}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
	}
}

// inZone returns the affinity of a volume in a zone, another object each time.
func inZone(zone string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
	}}}}
}

func fullVolume() *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: fullMeta("pv")}
	pv.Annotations = map[string]string{
		names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "s", names.AnnDeletionSecretNamespace: "n", names.AnnBetaStorageClass: "b", "other": "a",
	}
	pv.Spec = corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, StorageClassName: "c",
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		ClaimRef:     &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "ns", Name: "claim", UID: "c"},
		NodeAffinity: inZone("a"),
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: "h", VolumeAttributes: map[string]string{"a": "b"},
		}},
	}
	pv.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased, Message: "m", LastPhaseTransitionTime: new(metav1.Unix(5, 0))}
	return pv
}

func fullClaim(volume string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: fullMeta("claim")}
	claim.Namespace = "ns"
	claim.Annotations = map[string]string{names.AnnStorageProvisioner: driver, names.AnnSelectedNode: "n", annLastApplied: "{}"}
	claim.Spec = corev1.PersistentVolumeClaimSpec{
		VolumeName: volume, StorageClassName: new("c"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:  corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		VolumeMode: new(corev1.PersistentVolumeFilesystem),
	}
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Conditions: []corev1.PersistentVolumeClaimCondition{{}}}
	return claim
}

func trimmed[T client.Object](t *testing.T, object T) T {
	t.Helper()
	out, err := Trim(object.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	return out.(T)
}

func TestTrimVolume(t *testing.T) {
	want := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pv", UID: "uid-of-it", ResourceVersion: "7", CreationTimestamp: metav1.Unix(1, 0),
			Finalizers: []string{names.FinalizerPVProtection, names.FinalizerVolume},
			Annotations: map[string]string{
				names.AnnProvisionedBy: driver, names.AnnDeletionSecretName: "s", names.AnnDeletionSecretNamespace: "n", names.AnnBetaStorageClass: "b",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: "c", NodeAffinity: inZone("a"),
			ClaimRef:               &corev1.ObjectReference{Namespace: "ns", Name: "claim", UID: "c"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased, LastPhaseTransitionTime: new(metav1.Unix(5, 0))},
	}
	got := trimmed(t, fullVolume())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, trimmed(t, got)); diff != "" {
		t.Errorf("trimmed again: %s", diff)
	}
}

// The time of the last phase change is kept only for volumes that may be reclaimed soon.
func TestTrimVolumePhaseTime(t *testing.T) {
	bound := fullVolume()
	bound.Status.Phase = corev1.VolumeBound
	if got := trimmed(t, bound).Status; got != (corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}) {
		t.Errorf("kept %+v", got)
	}
}

// Trim adds nothing: an empty annotation is not the same as none.
func TestTrimVolumeThatHasLittle(t *testing.T) {
	bare := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	if diff := cmp.Diff(bare, trimmed(t, bare)); diff != "" {
		t.Error(diff)
	}
}

func TestTrimClaimKeepsTheSpecUntilThereIsAVolume(t *testing.T) {
	waiting := fullClaim("")
	got := trimmed(t, waiting)
	if diff := cmp.Diff(waiting.Spec, got.Spec); diff != "" {
		t.Error(diff)
	}
	if len(got.Annotations) != 2 || got.ManagedFields != nil || len(got.Labels) != 1 || got.Status.Conditions != nil {
		t.Errorf("kept too much: %+v", got)
	}
	bound := trimmed(t, fullClaim("pv"))
	want := corev1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: new("c")}
	if diff := cmp.Diff(want, bound.Spec); diff != "" || bound.UID == "" || bound.Namespace != "ns" || bound.Annotations != nil || bound.Labels != nil {
		t.Errorf("%s %+v", diff, bound.ObjectMeta)
	}
}

func TestTrimSharesWhatObjectsHaveInCommon(t *testing.T) {
	a, b := trimmed(t, fullClaim("v")), trimmed(t, fullClaim("w"))
	if a.Spec.StorageClassName != b.Spec.StorageClassName || &a.Finalizers[0] != &b.Finalizers[0] {
		t.Error("two claims do not share what is equal")
	}
	other := fullVolume()
	other.Annotations[names.AnnDeletionSecretName] = ""
	delete(other.Annotations, names.AnnDeletionSecretNamespace)
	if got := trimmed(t, other).Annotations; got[names.AnnDeletionSecretName] != "" || len(got) != 3 {
		t.Errorf("shares annotations that are not equal: %v", got)
	}
}

func TestPoolIsBounded(t *testing.T) {
	var p pool[string]
	for i := range 3 * mostPooled {
		if key := fmt.Sprint(i); p.get([]byte(key), func() string { return key }) != key {
			t.Fatal("another value")
		}
	}
	if len(p.have) > mostPooled {
		t.Errorf("%d values", len(p.have))
	}
}

// The decisions about a trimmed and a whole volume are equal.
func TestTrimChangesNoDecisionAboutVolumes(t *testing.T) {
	edits := []func(*corev1.PersistentVolume){
		func(*corev1.PersistentVolume) {},
		func(pv *corev1.PersistentVolume) { pv.DeletionTimestamp = new(metav1.Unix(2, 0)) },
		func(pv *corev1.PersistentVolume) { pv.Finalizers = nil },
		func(pv *corev1.PersistentVolume) { pv.Annotations = nil },
		func(pv *corev1.PersistentVolume) { delete(pv.Annotations, names.AnnDeletionSecretNamespace) },
		func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef = nil },
		func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID = "" },
		func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil },
		func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "" },
		func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" },
		func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeBound },
		func(pv *corev1.PersistentVolume) { pv.Status.Phase = corev1.VolumeFailed },
	}
	for i, first := range edits {
		for j, second := range edits {
			pv := fullVolume()
			first(pv)
			if pv.Spec.CSI != nil && pv.Spec.ClaimRef != nil { // which some edits change
				second(pv)
			}
			if want, got := volumeVerdict(pv, pv), volumeVerdict(trimmed(t, pv), trimmed(t, pv)); got != want {
				t.Errorf("edits %d and %d: %s, want %s", i, j, got, want)
			}
		}
	}
}

// volumeVerdict returns the verdict about a volume as text, with what the decision asks for, alone and
// with another volume that has the handle.
func volumeVerdict(pv, other *corev1.PersistentVolume) string {
	var text strings.Builder
	for _, others := range [][]*corev1.PersistentVolume{nil, {other}} {
		s := reclaim.Snapshot{
			Name: pv.Name, Volume: pv, IsLive: true, Driver: reclaim.Driver{
				Name: driver, Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true},
			},
		}
		_, v, err := verdict.Settle(s, func(s reclaim.Snapshot) reclaim.Verdict { return reclaim.Decide(s, time.Unix(1000, 0)) }, func(s reclaim.Snapshot, refs []verdict.Ref) (reclaim.Snapshot, error) {
			for _, ref := range refs {
				fmt.Fprint(&text, ref, " ")
				s = s.With(ref, reclaim.Answer{Volumes: others, Class: &storagev1.StorageClass{Provisioner: driver, Parameters: map[string]string{
					names.ParameterSecretName: "${pvc.name}", names.ParameterSecretNamespace: "${pvc.namespace}",
				}}})
			}
			return s, nil
		})
		fmt.Fprintf(&text, "%T %+v %v ", v, v.Because(), err)
	}
	return text.String()
}

// Two decisions about a trimmed claim with a volume: no second volume is provisioned, and a volume
// from an unresolved request is deleted.
func TestTrimChangesNoDecisionAboutClaims(t *testing.T) {
	for _, volume := range []string{"", "another"} {
		for _, pending := range []*intent.Entry{nil, {VolumeName: "v", Request: &csi.CreateVolumeRequest{Name: "v"}}} {
			full, part := fullClaim(volume), trimmed(t, fullClaim(volume))
			if want, got := claimVerdict(full, pending), claimVerdict(part, pending); got != want {
				t.Errorf("volume %q, pending %v: %s, want %s", volume, pending, got, want)
			}
		}
	}
}

func claimVerdict(claim *corev1.PersistentVolumeClaim, pending *intent.Entry) string {
	s := provision.Snapshot{
		Key: provision.Key{NamespacedName: client.ObjectKeyFromObject(claim), UID: claim.UID}, Claim: claim, Pending: pending,
		Class: &storagev1.StorageClass{Provisioner: driver}, Driver: provision.Driver{
			Name: driver, Plugin: map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true},
			Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true},
		},
	}
	v := provision.Decide(s, time.Unix(10, 0))
	sent := provision.CreateVolume{Request: &csi.CreateVolumeRequest{Name: "v"}}
	after := provision.AfterCreate(s, sent, provision.Answer{Volume: &csi.Volume{VolumeId: "h"}})
	failed := provision.AfterCreate(s, sent, provision.Answer{Failure: &csispec.Failure{Code: codes.ResourceExhausted}})
	return fmt.Sprintf("%T %+v %T %+v %T %+v", v, v.Because(), after, after.Because(), failed, failed.Because())
}
