package protection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/kube"
)

// A finalizer is dropped by writing the object whole where nobody else writes it, and by a patch that fits the danger elsewhere.
func TestDropping(t *testing.T) {
	volume := func(phase corev1.PersistentVolumePhase, finalizers ...string) client.Object {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "u", ResourceVersion: "7", Finalizers: finalizers},
			Status:     corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	for _, tc := range []struct {
		name             string
		object           client.Object
		whole, unchanged bool
	}{
		{"claim", &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u"}}, true, false},
		{"released volume", volume(corev1.VolumeReleased, names.FinalizerPVProtection), true, false},
		{"failed volume", volume(corev1.VolumeFailed, names.FinalizerPVProtection), true, false},
		{"released volume with its provisioner's", volume(corev1.VolumeReleased, names.FinalizerVolume, names.FinalizerPVProtection), false, false},
		{"volume that a claim may take", volume(corev1.VolumeAvailable, names.FinalizerPVProtection), false, true},
	} {
		patch := newFinalizer(names.FinalizerPVProtection, nil).dropping(tc.object)
		data, err := patch.Data(tc.object)
		if err != nil {
			t.Fatal(err)
		}
		var whole bool
		switch patch.(type) {
		case kube.VolumeEdit, kube.ClaimEdit:
			whole = true
		}
		if unchanged := strings.Contains(string(data), `"resourceVersion":"7"`); whole != tc.whole || unchanged != tc.unchanged {
			t.Errorf("%s: whole %t, only if unchanged %t, want %t, %t: %s", tc.name, whole, unchanged, tc.whole, tc.unchanged, data)
		}
	}
}
