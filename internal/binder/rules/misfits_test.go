package binding

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Misfits names each field of the volume that keeps the binder from choosing it, in a fixed order (1.9).
func TestMisfits(t *testing.T) {
	block, gold := corev1.PersistentVolumeBlock, "gold"
	selects := func(c *pvc) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	}
	for name, tc := range map[string]struct {
		volume func(*pv)
		claim  func(*pvc)
		want   []string
	}{
		"it fits":                 {},
		"the volume is larger":    {volume: func(v *pv) { v.Spec.Capacity = storage("2Gi") }},
		"the volume is marked":    {func(v *pv) { v.DeletionTimestamp = &metav1.Time{} }, nil, []string{"metadata.deletionTimestamp"}},
		"the volume is too small": {func(v *pv) { v.Spec.Capacity = storage("1Mi") }, nil, []string{"spec.capacity.storage"}},
		"an attributes class":     {nil, func(c *pvc) { c.Spec.VolumeAttributesClassName = &gold }, []string{"spec.volumeAttributesClassName"}},
		"a block volume":          {func(v *pv) { v.Spec.VolumeMode = &block }, nil, []string{"spec.volumeMode"}},
		"both are block":          {func(v *pv) { v.Spec.VolumeMode = &block }, func(c *pvc) { c.Spec.VolumeMode = &block }, nil},
		"an access mode":          {nil, func(c *pvc) { c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany) }, []string{"spec.accessModes"}},
		"it names another claim":  {func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "other"} }, nil, []string{"spec.claimRef"}},
		"it names a former claim": {func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "former"} }, nil, []string{"spec.claimRef"}},
		"it names the claim":      {volume: func(v *pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns", Name: "c"} }},
		"the claim has a class":   {nil, func(c *pvc) { c.Spec.StorageClassName = &gold }, []string{"spec.storageClassName"}},
		"the volume has a class":  {func(v *pv) { v.Spec.StorageClassName = gold }, nil, []string{"spec.storageClassName"}},
		"the labels do not match": {nil, selects, []string{"metadata.labels"}},
		"the labels match":        {func(v *pv) { v.Labels = map[string]string{"app": "db"} }, selects, nil},
		"several, rules of 1.7 first": {
			func(v *pv) { v.Spec.Capacity, v.Spec.StorageClassName = storage("1Mi"), gold }, selects,
			[]string{"spec.capacity.storage", "spec.storageClassName", "metadata.labels"},
		},
	} {
		volume, claim := aVolume(), claim()
		if tc.volume != nil {
			tc.volume(volume)
		}
		if tc.claim != nil {
			tc.claim(claim)
		}
		if got := Misfits(volume, claim); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
