package protection

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// A finalizer is removed by a patch with the preconditions that the object needs: a volume that no
// other client may have changed is written under its resourceVersion.
func TestDropping(t *testing.T) {
	going := func(finalizers ...string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", UID: "u", ResourceVersion: "7", Finalizers: finalizers, DeletionTimestamp: new(metav1.Unix(1000, 0))}
	}
	volume := func(phase corev1.PersistentVolumePhase, finalizers ...string) client.Object {
		return &corev1.PersistentVolume{ObjectMeta: going(finalizers...), Status: corev1.PersistentVolumeStatus{Phase: phase}}
	}
	const protects = names.FinalizerPVProtection
	for _, tc := range []struct {
		name      string
		object    client.Object
		unchanged bool
	}{
		{"claim", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects)}, false},
		{"claim with another finalizer", &corev1.PersistentVolumeClaim{ObjectMeta: going(protects, "x/y")}, false},
		{"released volume", volume(corev1.VolumeReleased, protects), true},
		{"failed volume", volume(corev1.VolumeFailed, protects), true},
		{"released volume with its provisioner's", volume(corev1.VolumeReleased, names.FinalizerVolume, protects), false},
		{"released volume with another finalizer", volume(corev1.VolumeReleased, protects, "x/y"), false},
		{"volume that a claim may take", volume(corev1.VolumeAvailable, protects), true},
	} {
		patch := newFinalizer(protects, nil).dropping(tc.object)
		data, err := patch.Data(tc.object)
		if err != nil {
			t.Fatal(err)
		}
		if unchanged := strings.Contains(string(data), `"resourceVersion":"7"`); unchanged != tc.unchanged {
			t.Errorf("%s: only if unchanged %t, want %t: %s", tc.name, unchanged, tc.unchanged, data)
		}
	}
}
