package provisioner

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/sidecar"
)

// With --node-deployment the cache has no volume of another node, also if the process hosts other roles, whose
// fields the transform keeps: an instance would delete such a volume.
func TestHostingInstanceOfANodeHasItsVolumesOnly(t *testing.T) {
	for _, hosted := range [][]*sidecar.Common{nil, {{}}} {
		p := New()
		p.NodeDeployment.Enabled, p.Hosted = true, hosted
		table := kube.TrimTo([]*kube.Fields{kube.ProvisionedVolumeFields})
		transform := p.trim(t.Context(), nil, table)
		if p.at == nil {
			t.Fatalf("hosting %d roles: the place of the node is not kept", len(hosted))
		}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}, Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		}}
		out, err := transform(pv)
		if err != nil || kube.HasSource(out.(*corev1.PersistentVolume)) {
			t.Errorf("hosting %d roles: the volume of another node is kept, %v", len(hosted), err)
		}
	}
}
