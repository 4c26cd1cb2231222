package kube

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

func trimmedPart[T any](t *testing.T, o *T) *T {
	t.Helper()
	out, err := TrimTo(PairFields)(o)
	if err != nil {
		t.Fatal(err)
	}
	return out.(*T)
}

func boundClaim() *corev1.PersistentVolumeClaim {
	claim := fullClaim("pv")
	claim.Annotations[names.AnnBindCompleted] = "yes"
	claim.Spec.VolumeAttributesClassName = new("fast")
	claim.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		CurrentVolumeAttributesClassName: new("fast"), Conditions: []corev1.PersistentVolumeClaimCondition{{Type: "x"}},
	}
	return claim
}

// The binder decides the same about trimmed and about whole objects, in each phase of a claim and
// volume.
func TestPairFieldsKeepDecisions(t *testing.T) {
	claims := map[string]func(*corev1.PersistentVolumeClaim){
		"bound": func(*corev1.PersistentVolumeClaim) {}, "lost": func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost },
		"named":                func(c *corev1.PersistentVolumeClaim) { delete(c.Annotations, names.AnnBindCompleted) },
		"waits for its status": func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending },
		"unbound":              func(c *corev1.PersistentVolumeClaim) { *c = *fullClaim("") },
		"deleting":             func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = new(metav1.Unix(2, 0)) },
		"selects": func(c *corev1.PersistentVolumeClaim) {
			*c = *fullClaim("")
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"l": "v"}}
		},
		"migrated": func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[names.AnnStorageProvisioner] = "kubernetes.io/cinder"
		},
		"asks to be reused": func(c *corev1.PersistentVolumeClaim) { c.Annotations[names.AnnReuse] = "any" },
	}
	volumes := map[string]func(*corev1.PersistentVolume){
		"bound":    func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
		"free":     func(v *corev1.PersistentVolume) { v.Spec.ClaimRef, v.Status.Phase = nil, corev1.VolumeAvailable },
		"reserved": func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" },
		"foreign":  func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" },
		"on host": func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef.UID, v.Annotations = "other", nil
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
		},
		"raw":   func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) },
		"going": func(v *corev1.PersistentVolume) { v.DeletionTimestamp = new(metav1.Unix(2, 0)) },
		"small": func(v *corev1.PersistentVolume) {
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
		},
		"grown": func(v *corev1.PersistentVolume) { v.Annotations[names.AnnPreResizeCapacity] = "512Mi" },
		"in tree": func(v *corev1.PersistentVolume) {
			v.Annotations[names.AnnProvisionedBy] = "kubernetes.io/gce-pd"
			v.Finalizers = append(v.Finalizers, names.FinalizerInTree)
		},
	}
	for c, editClaim := range claims {
		for v, editVolume := range volumes {
			claim, pv := boundClaim(), fullVolume()
			pv.Spec.ClaimRef.UID = claim.UID
			editClaim(claim)
			editVolume(pv)
			whole := decisions(claim, pv)
			kept := decisions(trimmedPart(t, claim.DeepCopy()), trimmedPart(t, pv.DeepCopy()))
			if diff := cmp.Diff(whole, kept); diff != "" {
				t.Errorf("claim %s, volume %s:\n%s", c, v, diff)
			}
		}
	}
}

// decisions returns the binder's verdicts about the two as text, in several snapshots.
func decisions(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) (all []string) {
	key := binding.Key{Claim: types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}}
	for flags := range 4 {
		s := binding.Snapshot{
			Key: key, Claim: claim, ClaimAsked: flags&1 != 0, VolumesAsked: flags&2 != 0,
			Unused: &corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimUnused},
		}
		if pv.Spec.ClaimRef != nil {
			s.Refs = []*corev1.PersistentVolume{pv}
		}
		if claim.Spec.VolumeName == pv.Name {
			s.Named = pv
		}
		x := binding.NewIndex()
		if binding.Matchable(pv) {
			x.Offer(pv)
			if x.BestVolume(claim) != "" {
				s.Offer = pv
			}
		}
		decided := binding.Decide(s)
		all = append(all, fmt.Sprintf("%T %v rest=%v deleter=%s condition=%v", decided, decided.Because(),
			binding.AtRest(claim, pv), binding.Deleter(pv), setsCondition(decided)))
	}
	return all
}

// setsCondition reports whether the claim gets the condition Unused with the phase Bound.
func setsCondition(v binding.Verdict) bool {
	todo, _ := v.(verdict.Do[binding.Action])
	return slices.ContainsFunc(todo.Actions, func(a binding.Action) bool {
		set, is := a.(binding.SetClaimStatus)
		return is && set.Status.Unused != nil
	})
}

// The fields that protection, expansion and metrics read stay (3.1 to 3.4, 1.16).
func TestPairFieldsKeepWhatOthersRead(t *testing.T) {
	claim, pv := boundClaim(), fullVolume()
	keptClaim, keptVolume := trimmedPart(t, claim.DeepCopy()), trimmedPart(t, pv.DeepCopy())
	type reads struct {
		Finalizers                      []string
		Owners                          []metav1.OwnerReference
		Class, Mode, Attributes, Source string
		Request, Capacity               string
	}
	of := func(c *corev1.PersistentVolumeClaim) reads {
		return reads{
			c.Finalizers, c.OwnerReferences, *c.Spec.StorageClassName, string(*c.Spec.VolumeMode), *c.Spec.VolumeAttributesClassName + *c.Status.CurrentVolumeAttributesClassName, "",
			c.Spec.Resources.Requests.Storage().String(), c.Status.Capacity.Storage().String(),
		}
	}
	if diff := cmp.Diff(of(claim), of(keptClaim)); diff != "" {
		t.Error(diff)
	}
	if keptVolume.Spec.CSI.Driver != driver || keptVolume.Spec.Capacity.Storage().String() != "1Gi" || !slices.Equal(keptVolume.Finalizers, pv.Finalizers) {
		t.Errorf("%+v", keptVolume)
	}
	if keptClaim.ManagedFields != nil || keptVolume.ManagedFields != nil || keptVolume.Labels != nil || keptVolume.Spec.NodeAffinity != nil || keptVolume.Spec.CSI.VolumeHandle != "" {
		t.Error("a field is kept that no controller reads")
	}
}
