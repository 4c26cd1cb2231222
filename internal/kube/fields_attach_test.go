package kube

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// AttachedVolumeFields are the fields of a bound volume that attachment.Decide and its indexes read.
func TestAttachedVolumeFields(t *testing.T) {
	trim := TrimTo(append(slices.Clone(PairFields), AttachedVolumeFields))
	pv := func(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Name: "c", UID: "u"},
			PersistentVolumeSource: source,
		}, Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound}}
	}
	csi := pv(corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}})
	inTree := pv(corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}})
	inTree.Labels = map[string]string{corev1.LabelTopologyZone: "a"}
	for _, pv := range []**corev1.PersistentVolume{&csi, &inTree} {
		out, err := trim(*pv)
		if err != nil {
			t.Fatal(err)
		}
		o := out.(*corev1.PersistentVolume)
		*pv = o
		if len(o.Spec.AccessModes) != 1 || o.Spec.ClaimRef == nil {
			t.Errorf("got %+v", o.Spec)
		}
	}
	if csi.Spec.CSI == nil || csi.Spec.CSI.VolumeHandle != "h" || csi.Spec.CSI.Driver != "d" {
		t.Errorf("got %+v", csi.Spec)
	}
	if inTree.Spec.AWSElasticBlockStore == nil || inTree.Spec.AWSElasticBlockStore.VolumeID != "vol-1" ||
		inTree.Labels[corev1.LabelTopologyZone] != "a" {
		t.Errorf("got %+v", inTree.Spec)
	}
}
