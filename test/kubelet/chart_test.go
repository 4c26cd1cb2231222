package kubelet

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const driverName = "csi.purser"

// values switch on every role on one node. The node's network takes the place of network plugins.
func (r *rig) values() string {
	host, port := r.server()
	const pods, driverPorts = 2, 5
	first := r.freePorts(pods + driverPorts)
	return fmt.Sprintf(`
image: {tag: %s, pullPolicy: Never}
hostNetwork: true
apiServer: {host: %q, port: %q}
controllers: {enabled: true, replicas: 1, port: %d}
snapshotController: {enabled: true, replicas: 1, port: %d}
driver:
  enabled: true
  name: %s
  kubeletDir: %s
  stateDir: %s
  port: %d
  singleNode: true
  snapshotter: true
  resizer: true
  attacher: true
  capacity: false
  extraArgs: [--topology=false, --attach-nodes=*]
  nodeSelector: {kubernetes.io/hostname: %s}
`, tag, host, port, first, first+1, driverName, r.kubeletDir(), filepath.Join(r.dir, "s"), first+pods, nodeName)
}

// Purser runs as pods on a real kubelet, from nothing but the images and the chart.
func TestChartOnAKubelet(t *testing.T) {
	r := newRig(t)
	objects := r.render(r.values())
	r.install(objects, 3)
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driverName, AllowVolumeExpansion: new(true),
		Parameters: map[string]string{"csi.storage.k8s.io/fstype": "ext4"},
	}
	must(t, r.Create(t.Context(), class))
	claim := r.claim("data", nil)
	r.awaitBound(claim)
}

// claim creates a claim of 32Mi, from a snapshot where one is named.
func (r *rig) claim(name string, from *string) *corev1.PersistentVolumeClaim {
	r.t.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("32Mi")}},
	}}
	if from != nil {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: new("snapshot.storage.k8s.io"), Kind: "VolumeSnapshot", Name: *from}
	}
	must(r.t, r.Create(r.t.Context(), claim))
	return claim
}

func (r *rig) awaitBound(claim *corev1.PersistentVolumeClaim) {
	r.t.Helper()
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("claim %s is %s\n%s", claim.Name, claim.Status.Phase, r.story(ctx, nil))
		}
		return nil
	})
}
