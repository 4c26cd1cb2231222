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

// A finalizer is dropped by writing the object whole where no other client writes it, and by a
// patch that fits the danger elsewhere.
func TestDropping(t *testing.T) {
	going := func(finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", UID: "u", ResourceVersion: "7", Finalizers: finalizers, DeletionTimestamp: new(metav1.Unix(1000, 0))}
	}
	volume := func(phase corev1.PersistentVolumePhase, finalizers ...string) client.Object {
		return &corev1.PersistentVolume{ObjectMeta: going(finalizers...), Status: corev1.PersistentVolumeStatus{Phase: phase}}
	}
	const protects = names.FinalizerPVProtection
	for _, tc := range []struct {
		name             string
		object           client.Object
		whole, unchanged bool
	}{
		{"claim", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects)}, true, false},
		{"claim with another finalizer", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects, "x/y")}, true, false},
		{"released volume", volume(corev1.VolumeReleased, protects), false, true},
		{"failed volume", volume(corev1.VolumeFailed, protects), false, true},
		{"released volume with its provisioner's", volume(corev1.VolumeReleased, names.FinalizerVolume, protects), false, false},
		{"released volume with another finalizer", volume(corev1.VolumeReleased, protects, "x/y"), false, false},
		{"volume that a claim may take", volume(corev1.VolumeAvailable, protects), false, true},
	} {
		patch := newFinalizer(protects, nil).dropping(tc.object)
		data, err := patch.Data(tc.object)
		if err != nil {
			t.Fatal(err)
		}
		var whole bool
		switch patch.(type) {
		case kube.VolumeEdit, kube.ClaimEdit:
			whole = true
		}
		unchanged := strings.Contains(string(data), `"resourceVersion":"7"`)
		if whole != tc.whole || unchanged != tc.unchanged {
			t.Errorf("%s: whole %t, only if unchanged %t, want %t, %t: %s",
				tc.name, whole, unchanged, tc.whole, tc.unchanged, data)
		}
	}
}
