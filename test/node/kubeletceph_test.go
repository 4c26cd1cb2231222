package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/test/ceph/cluster"
)

// Names in the Ceph cluster of the test.
const (
	cephPool       = "rbd"
	cephFilesystem = "cephfs"
	cephUser       = "csi"
)

// Containers write and read on volumes of a real Ceph: an image with ext4, an image as a device, and a
// subvolume of CephFS. What one pod wrote the next one reads.
func TestKubeletOnCeph(t *testing.T) {
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	if missing := cluster.Missing(); missing != "" {
		t.Skip(missing)
	}
	ceph, key := startCeph(t)
	r := newRig(t, func(d *driver.Driver) { d.Backend, d.Ceph.ConfDir = "ceph", ceph.ConfDir() })
	secrets := map[string]string{"userID": cephUser, "userKey": key}
	r.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ceph"}, StringData: secrets})
	image := r.onCeph(map[string]string{"kind": "rbd", "pool": cephPool}, secrets)
	noType := func(pv *corev1.PersistentVolume) { pv.Spec.CSI.FSType = "" }
	folder := r.onCeph(map[string]string{"kind": "cephfs", "fsName": cephFilesystem}, secrets)
	volumes := []*corev1.PersistentVolume{r.volume("image", image), r.volume("raw", asBlock, image), r.volume("folder", noType, folder)}

	runtime := r.startContainerd()
	stopKubelet := r.startKubelet(runtime)
	device := func(args ...string) []func(*corev1.Pod) {
		return []func(*corev1.Pod){asDevices, func(p *corev1.Pod) { p.Spec.Containers[0].Args = args }}
	}
	writers := []*corev1.Pod{
		r.container("image", []corev1.Volume{claimed("image")}),
		r.container("raw", []corev1.Volume{claimed("raw")}, device("write", "/dev/raw", "wait")...),
		r.container("folder", []corev1.Volume{claimed("folder")}),
	}
	r.waitRunning(writers...)
	for _, i := range []int{0, 2} {
		file := filepath.Join(r.target(writers[i], volumes[i]), "hello")
		r.eventually("the container has written "+file, func() bool {
			info, err := os.Stat(file)
			return err == nil && info.Size() > 0
		})
	}
	r.remove(writers...)
	r.waitGone(writers...)
	reads := func(path string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Args, p.Spec.RestartPolicy = []string{"read", path}, corev1.RestartPolicyNever
		}
	}
	readers := []*corev1.Pod{
		r.container("image-reader", []corev1.Volume{claimed("image")}, reads("/image/hello")),
		r.container("raw-reader", []corev1.Volume{claimed("raw")}, asDevices, reads("/dev/raw")),
		r.container("folder-reader", []corev1.Volume{claimed("folder")}, reads("/folder/hello")),
	}
	for _, pod := range readers {
		r.eventually("pod "+pod.Name+" has read", func() bool {
			var now corev1.Pod
			return r.Get(t.Context(), client.ObjectKeyFromObject(pod), &now) == nil && now.Status.Phase == corev1.PodSucceeded
		})
	}
	r.remove(readers...)
	r.waitGone(readers...)
	r.eventually("nothing mounted", func() bool { return len(r.mounts()) == 0 })
	for _, pv := range volumes {
		request := &csi.DeleteVolumeRequest{VolumeId: pv.Spec.CSI.VolumeHandle, Secrets: secrets}
		r.eventually(pv.Name+" deleted", func() bool { // the driver refuses it while it still unstages the volume
			_, err := r.conn.Controller().DeleteVolume(t.Context(), request)
			return err == nil
		})
	}
	stopKubelet()
}

// onCeph makes the volume of a PersistentVolume, with what Ceph needs to know.
func (r *rig) onCeph(parameters, secrets map[string]string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		created, err := r.conn.Controller().CreateVolume(r.t.Context(), &csi.CreateVolumeRequest{
			Name: pv.Name, CapacityRange: &csi.CapacityRange{RequiredBytes: pv.Spec.Capacity.Storage().Value()},
			VolumeCapabilities: []*csi.VolumeCapability{capabilityOf(pv)}, Parameters: parameters, Secrets: secrets,
		})
		if err != nil {
			r.t.Fatal(err)
		}
		pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.VolumeAttributes = created.Volume.VolumeId, created.Volume.VolumeContext
		pv.Spec.CSI.NodeStageSecretRef = &corev1.SecretReference{Namespace: "default", Name: "ceph"}
	}
}

// startCeph starts a Ceph cluster with a pool and a filesystem, until the test ends.
func startCeph(t *testing.T) (c *cluster.Cluster, key string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ceph") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if c, err = cluster.Start(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, add := range []func(context.Context) error{
		func(ctx context.Context) error { return c.AddPool(ctx, cephPool) },
		func(ctx context.Context) error { return c.AddFilesystem(ctx, cephFilesystem) },
	} {
		if err := add(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if key, err = c.AddUser(t.Context(), cephUser); err != nil {
		t.Fatal(err)
	}
	return c, key
}
