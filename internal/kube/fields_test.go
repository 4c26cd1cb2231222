package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/names"
)

// trimAll is the transform of the role plane: all controllers, a provisioner and a resizer.
func trimAll() toolscache.TransformFunc {
	return TrimTo(append(slices.Clone(PairFields), AttachedVolumeFields, ProvisionedVolumeFields, ExpandedVolumeFields))
}

// Composed Fields keep each field that one of them or Trim keeps, in any order, so no controller
// decides differently in the plane.
func TestComposedFieldsKeepWhatEachKeeps(t *testing.T) {
	free, onHost, grown := fullVolume(), fullVolume(), fullVolume()
	free.Spec.ClaimRef = nil
	onHost.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
	grown.Annotations[names.AnnPreResizeCapacity] = "512Mi"
	for name, whole := range map[string]runtime.Object{
		"bound claim": boundClaim(), "waiting claim": fullClaim(""), "volume": fullVolume(), "free volume": free, "volume on host": onHost,
		"volume that grows": grown, "bare volume": &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, "node": &corev1.Node{},
	} {
		for other, trim := range map[string]toolscache.TransformFunc{"Trim": Trim, "PairFields": TrimTo(PairFields), "AttachedVolumeFields": TrimTo(append(slices.Clone(PairFields), AttachedVolumeFields))} {
			want, err := trim(whole.DeepCopyObject())
			if err != nil {
				t.Fatal(err)
			}
			got, err := trimAll()(whole.DeepCopyObject())
			if err == nil {
				got, err = trim(got)
			}
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s, of which %s keeps less (error %v):\n%s", name, other, err, diff)
			}
		}
	}
}

// 8.14: an annotation of ours keeps the volume, a misspelt one too, so each trimmed cache has it: that
// of the binder, and that of a provisioner by itself.
func TestTrimKeepsAllAnnotationsOfOurs(t *testing.T) {
	for name, trim := range map[string]toolscache.TransformFunc{"trimAll": trimAll(), "Trim": Trim} {
		pv := fullVolume()
		pv.Annotations = map[string]string{"purser/reuze": "any", names.AnnReuse: "any", "other": "x", names.AnnTraceParent: "t"}
		out, err := trim(pv)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"purser/reuze": "any", names.AnnReuse: "any", names.AnnTraceParent: "t"}
		if diff := cmp.Diff(want, out.(*corev1.PersistentVolume).Annotations); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The order in which Fields are composed does not matter.
func TestComposedFieldsInAnyOrder(t *testing.T) {
	all := append(slices.Clone(PairFields), AttachedVolumeFields, ProvisionedVolumeFields, ExpandedVolumeFields)
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	onHost := fullVolume()
	onHost.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}}
	for _, pv := range []*corev1.PersistentVolume{fullVolume(), onHost} {
		a, errA := TrimTo(all)(pv.DeepCopy())
		b, errB := TrimTo(backwards)(pv.DeepCopy())
		if diff := cmp.Diff(a, b); diff != "" || errA != nil || errB != nil {
			t.Error(diff, errA, errB)
		}
	}
}

// A trim removes the fields of a bound pair that no role reads.
func TestComposedFieldsDropTheRest(t *testing.T) {
	for _, whole := range []runtime.Object{boundClaim(), fullVolume()} {
		out, err := trimAll()(whole)
		if err != nil {
			t.Fatal(err)
		}
		switch o := out.(type) {
		case *corev1.PersistentVolumeClaim:
			if o.ManagedFields != nil || o.Labels != nil || o.GenerateName != "" || o.Status.Conditions != nil {
				t.Errorf("claim: %+v", o)
			}
		case *corev1.PersistentVolume:
			if o.ManagedFields != nil || o.Labels != nil || o.Annotations["other"] != "" || o.Spec.NodeAffinity != sharedAffinity(inZone("a")) || o.Spec.CSI.VolumeAttributes != nil {
				t.Errorf("volume: %+v", o)
			}
		}
	}
}
