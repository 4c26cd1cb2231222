package binder

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// 1.16: names and labels are what dashboards look for.
func TestCollector(t *testing.T) {
	volume := func(name string, phase corev1.PersistentVolumePhase, mode *corev1.PersistentVolumeMode) *corev1.PersistentVolume {
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d"}
		pv.Spec.StorageClassName, pv.Spec.VolumeMode, pv.Status.Phase = "fast", mode, phase
		return pv
	}
	claim := func(name string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}
		c.Spec.StorageClassName, c.Status.Phase = new("fast"), phase
		return c
	}
	old := claim("old", corev1.ClaimPending)
	old.Annotations = map[string]string{names.AnnBetaStorageClass: "slow"}
	gold := claim("gold", corev1.ClaimBound)
	gold.Spec.VolumeAttributesClassName = new("gold")
	other := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	objects := []client.Object{
		volume("a", corev1.VolumeBound, nil), volume("b", corev1.VolumeReleased, ptr.To(corev1.PersistentVolumeBlock)), other,
		claim("a", corev1.ClaimBound), claim("b", corev1.ClaimBound), claim("lost", corev1.ClaimLost), old, gold,
	}
	cached := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).Build()
	want := `
# HELP pv_collector_bound_pv_count PersistentVolumes that are bound, by class.
# TYPE pv_collector_bound_pv_count gauge
pv_collector_bound_pv_count{storage_class="fast"} 1
# HELP pv_collector_bound_pvc_count PersistentVolumeClaims that are bound, by namespace and classes.
# TYPE pv_collector_bound_pvc_count gauge
pv_collector_bound_pvc_count{namespace="n",storage_class="fast",volume_attributes_class=""} 2
pv_collector_bound_pvc_count{namespace="n",storage_class="fast",volume_attributes_class="gold"} 1
# HELP pv_collector_total_pv_count PersistentVolumes, by kind and volume mode.
# TYPE pv_collector_total_pv_count gauge
pv_collector_total_pv_count{plugin_name="N/A",volume_mode="Filesystem"} 1
pv_collector_total_pv_count{plugin_name="kubernetes.io/csi:d",volume_mode="Block"} 1
pv_collector_total_pv_count{plugin_name="kubernetes.io/csi:d",volume_mode="Filesystem"} 1
# HELP pv_collector_unbound_pv_count PersistentVolumes that are not bound, by class.
# TYPE pv_collector_unbound_pv_count gauge
pv_collector_unbound_pv_count{storage_class=""} 1
pv_collector_unbound_pv_count{storage_class="fast"} 1
# HELP pv_collector_unbound_pvc_count PersistentVolumeClaims that are not bound, by namespace and classes.
# TYPE pv_collector_unbound_pvc_count gauge
pv_collector_unbound_pvc_count{namespace="n",storage_class="fast",volume_attributes_class=""} 1
pv_collector_unbound_pvc_count{namespace="n",storage_class="slow",volume_attributes_class=""} 1
`
	elected := make(chan struct{})
	collector := NewStateCollector(cached, elected)
	if n := testutil.CollectAndCount(collector); n != 0 {
		t.Errorf("a standby counts %d metrics, so a sum over the replicas counts twice", n)
	}
	close(elected)
	if err := testutil.CollectAndCompare(collector, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
