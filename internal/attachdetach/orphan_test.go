package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/names"
)

// R11: a VolumeAttachment whose PersistentVolume is gone, or was made again with another handle or
// without CSI, is replaced while a pod of its node wants a volume with the same handle. One that the
// attacher has never prepared does not have the handle, and its end enqueues the volume all the same.
func TestOrphanOfWantedHandleIsReplaced(t *testing.T) {
	for _, tc := range []struct {
		name   string
		handle string
		again  []client.Object
	}{
		{"gone", "h", nil},
		{"gone, never prepared", "", nil},
		{"made again with another handle", "h", []client.Object{&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "former"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h2"},
			}},
		}}},
		{"made again without CSI", "h", []client.Object{&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "former"},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "nfs.example", Path: "/"},
			}},
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			former := va("a", false)
			former.Spec.Source.PersistentVolumeName, former.Finalizers = new("former"), nil
			former.Status.AttachError = &storagev1.VolumeError{Message: `persistentvolume "former" not found`}
			if tc.handle != "" {
				former.Annotations = map[string]string{names.AnnVolumeHandle: tc.handle}
			}
			r := newRig(t, interceptor.Funcs{}, append(append(pair(), node("a"), pod("p", "a"), former), tc.again...)...)
			if key, ok := r.keyOfAttachment(t.Context(), former); !ok || key != volume {
				t.Errorf("the key of the VolumeAttachment is %v, so its end does not enqueue the volume", key)
			}
			r.run()
			if left := r.attachments(); len(left) > 0 {
				t.Fatalf("the VolumeAttachment of the volume that is gone is still there: %+v", left[0].Spec.Source)
			}
			r.Cached.Gone(former)
			r.forget(former)
			r.run()
			all := r.attachments()
			if len(all) != 1 || *all[0].Spec.Source.PersistentVolumeName != "pv" {
				t.Fatalf("%+v: want one VolumeAttachment for the volume of the pod", all)
			}
		})
	}
}
