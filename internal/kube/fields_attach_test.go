package kube

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// PublishedVolumeFields keep what ControllerPublishVolume gets, and volumes share what they have in common:
// an attacher has a hundred thousand of them.
func TestPublishedVolumeFields(t *testing.T) {
	trim := TrimTo([]*Fields{PublishedVolumeFields})
	whole := func(name string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID(name), Finalizers: []string{"external-attacher/d"}, Labels: map[string]string{"a": "b"},
				CreationTimestamp: metav1.Unix(1, 0),
			},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, VolumeMode: new(corev1.PersistentVolumeBlock),
				MountOptions: []string{"noatime"}, ClaimRef: &corev1.ObjectReference{Name: "c", UID: "u"},
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "d", VolumeHandle: name, FSType: "xfs", ReadOnly: true, VolumeAttributes: map[string]string{"k": "v"},
					ControllerPublishSecretRef: &corev1.SecretReference{Name: "s", Namespace: "n"},
				}},
			},
		}
	}
	trimmed := func(name string) *corev1.PersistentVolume {
		out, err := trim(whole(name))
		if err != nil {
			t.Fatal(err)
		}
		return out.(*corev1.PersistentVolume)
	}
	one, other, want := trimmed("one"), trimmed("other"), whole("one")
	want.Labels, want.Spec.ClaimRef, want.Spec.Capacity = nil, nil, nil
	if diff := cmp.Diff(want, one); diff != "" {
		t.Error(diff)
	}
	other.Spec.CSI.VolumeAttributes["k"] = "changed"
	if one.Spec.CSI.VolumeAttributes["k"] != "changed" {
		t.Error("two volumes do not share equal attributes")
	}
	pooledAttributes.have = nil
	in := whole("in-tree")
	in.Spec.CSI, in.Spec.NFS = nil, &corev1.NFSVolumeSource{Server: "s"}
	out, err := trim(in.DeepCopy())
	if diff := cmp.Diff(in, out); err != nil || diff != "" {
		t.Error(err, diff)
	}
}
