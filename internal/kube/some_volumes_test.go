package kube

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func volumeOfDriver(name, driver string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"f"}, Annotations: map[string]string{"a": "b"}},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}},
		},
	}
}

func isOfHere(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == "here"
}

// D-13: to an instance of one node, the volumes of other nodes do not exist.
func TestSomeVolumes(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
	api := fake.NewClientBuilder().WithScheme(Scheme()).
		WithObjects(volumeOfDriver("a", "here"), volumeOfDriver("b", "there"), claim).Build()
	r := SomeVolumes(api, isOfHere)
	for name, want := range map[string]bool{"a": true, "b": false, "none": false} {
		err := r.Get(t.Context(), client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var volumes corev1.PersistentVolumeList
	if err := r.List(t.Context(), &volumes); err != nil || len(volumes.Items) != 1 || volumes.Items[0].Name != "a" {
		t.Errorf("%v %v", volumes.Items, err)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Error(err)
	}
}

func TestTrimForNode(t *testing.T) {
	trim := TrimForNode(isOfHere, Trim)
	for name, want := range map[string]bool{"here": true, "there": false} {
		out, err := trim(volumeOfDriver("a", name))
		pv, ok := out.(*corev1.PersistentVolume)
		if err != nil || !ok || pv.Name != "a" || HasSource(pv) != want || (len(pv.Finalizers) > 0) != want {
			t.Errorf("%s: %+v %v", name, out, err)
		}
	}
	if out, err := trim(&corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "x"}}); err != nil || out.(*corev1.Node).Spec.PodCIDR != "" {
		t.Errorf("%v %v", out, err)
	}
}
