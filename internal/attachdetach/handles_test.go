package attachdetach

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/kube"
)

// The index of handles has parts: a volume is not taken for another one in its part.
func TestVolumesOfAnotherHandleAreLeftOut(t *testing.T) {
	near := "near"
	for i := 0; kube.HandleBucket(near) != kube.HandleBucket(volume.Handle); i++ {
		near = fmt.Sprint("near-", i)
	}
	other := func(name, driver, handle string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle},
			}},
		}
	}
	r := newRig(t, interceptor.Funcs{}, other("same", volume.Driver, volume.Handle),
		other("near", volume.Driver, near), other("elsewhere", "another.example.com", volume.Handle))
	s, err := r.Gather(t.Context(), volume)
	if err != nil || len(s.Volumes) != 1 || s.Volumes[0].Name != "same" {
		t.Errorf("volumes %v, %v", s.Volumes, err)
	}
}
