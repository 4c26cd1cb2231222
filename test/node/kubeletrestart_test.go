package node

import (
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/mount"
)

// A kubelet that restarts, and a driver that restarts: containers and mounts of pods that run stay,
// pods of the time between start, and those deleted in it go.
func TestKubeletAndDriverRestart(t *testing.T) {
	r := newKubeletRig(t)
	runtime := r.startContainerd()
	stopKubelet := r.startKubelet(runtime)
	for _, name := range []string{"stays", "goes", "later", "between"} {
		r.volume(name)
	}
	raw := r.volume("raw", asBlock)
	stays, goes := r.container("stays", []corev1.Volume{claimed("stays")}), r.container("goes", []corev1.Volume{claimed("goes")})
	device := r.container("device", []corev1.Volume{claimed("raw")}, asDevices, func(p *corev1.Pod) {
		p.Spec.Containers[0].Args = []string{"write", "/dev/raw", "read", "/dev/raw", "wait"}
	})
	r.waitRunning(stays, goes, device)
	before := r.containerIDs(stays, device)

	stopKubelet()
	r.remove(goes)
	later := r.container("later", []corev1.Volume{claimed("later")})
	stopKubelet = r.startKubelet(runtime)
	r.waitRunning(later)
	r.waitGone(goes)

	r.stopDriver()
	r.stopRegistration()
	between := r.container("between", []corev1.Volume{claimed("between")})
	r.remove(later)
	r.eventually("the kubelet waits for the driver", func() bool { return r.hasEvent(between, "FailedMount", "MountVolume.") })
	r.runDriver()
	r.startRegistration()
	r.waitRunning(between)
	r.waitGone(later)

	if after := r.containerIDs(stays, device); !slices.Equal(after, before) {
		t.Errorf("containers %v, before the restarts %v", after, before)
	}
	if mounted, err := mount.IsPoint(r.layout.Target(publicationOf(device, raw))); err != nil || !mounted {
		t.Errorf("the device of pod %s: mounted %t, %v", device.Name, mounted, err)
	}
	if _, err := filepath.EvalSymlinks(r.layout.BlockLink(publicationOf(device, raw))); err != nil {
		t.Error(err)
	}
	r.remove(stays, device, between)
	r.waitGone(stays, device, between)
	r.eventually("nothing mounted", func() bool { return len(r.mounts()) == 0 })
	stopKubelet()
}

// containerIDs are those of the first containers of the pods.
func (r *rig) containerIDs(pods ...*corev1.Pod) []string {
	r.t.Helper()
	var ids []string
	for _, pod := range pods {
		var now corev1.Pod
		if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil || len(now.Status.ContainerStatuses) == 0 {
			r.t.Fatalf("pod %s: %v, %v", pod.Name, now.Status, err)
		}
		ids = append(ids, now.Status.ContainerStatuses[0].ContainerID)
	}
	return ids
}
