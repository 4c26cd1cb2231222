package inventory

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func pooledClaim(name, fields string) *corev1.PersistentVolumeClaim {
	class := strings.Clone("fast")
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{"app": "shop"},
			Annotations:   map[string]string{"of": name, annLastApplied: "hunter2"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(fields)}},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// Objects keep their values, share those that are equal, and may be trimmed twice.
func TestPool(t *testing.T) {
	p := newPool()
	var trimmed []*corev1.PersistentVolumeClaim
	for i := range 4 {
		claim := pooledClaim(fmt.Sprint("c", i), `{"f:spec":{}}`)
		want := claim.DeepCopy()
		delete(want.Annotations, annLastApplied)
		want.ManagedFields = nil
		once := ""
		for range 2 {
			if _, err := p.trim(claim); err != nil {
				t.Fatal(err)
			}
			hash := claim.ManagedFields[0].FieldsV1.GetRawString()
			if once != "" && hash != once {
				t.Errorf("the managed fields are %s, and then %s", once, hash)
			}
			once = hash
		}
		got := claim.DeepCopy()
		got.ManagedFields = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("other values:\n%s", diff)
		}
		trimmed = append(trimmed, claim)
	}
	a, b := trimmed[2], trimmed[3]
	at := func(value any) uintptr { return reflect.ValueOf(value).Pointer() }
	if at(a.Labels) != at(b.Labels) || at(a.Spec.Resources.Requests) != at(b.Spec.Resources.Requests) {
		t.Error("equal labels or sizes are not shared")
	}
	if at(a.Annotations) == at(b.Annotations) {
		t.Error("different annotations are shared")
	}
	if a.ManagedFields[0].FieldsV1 != b.ManagedFields[0].FieldsV1 {
		t.Error("equal managed fields are not shared")
	}
	other := pooledClaim("c9", `{"f:status":{}}`)
	if _, err := p.trim(other); err != nil {
		t.Fatal(err)
	}
	if other.ManagedFields[0].FieldsV1.GetRawString() == a.ManagedFields[0].FieldsV1.GetRawString() {
		t.Error("a write of other fields is not seen")
	}
}

// A pool is bounded.
func TestPoolIsBounded(t *testing.T) {
	p := newPool()
	for i := range mostPooled * 2 {
		claim := pooledClaim(fmt.Sprint("c", i), fmt.Sprint(i))
		if _, err := p.trim(claim); err != nil {
			t.Fatal(err)
		}
	}
	if n := max(len(p.texts), len(p.maps), len(p.sizes), len(p.fields)); n > mostPooled {
		t.Errorf("%d values", n)
	}
}
