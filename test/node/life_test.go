package node

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/loopdev"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// One pod, one claim, and no faults: one call of each kind, and no read of the API server.
func TestOnePod(t *testing.T) {
	r := newRig(t)
	r.start()
	pv := r.volume("data")
	r.awaitRegistered()
	r.requests.reset()
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	r.waitPublished(pod)
	if err := os.WriteFile(filepath.Join(r.target(pod, pv), "hello"), []byte("world"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 1, publish 1, unpublish 1, unstage 1" {
		t.Error(got)
	}
	if r.requests.reads() != 0 {
		t.Errorf("requests of the agent: %s", r.requests.text())
	}
	t.Logf("requests of the agent: %s", r.requests.text())
}

// All kinds of volumes in one pod: one call of each kind for each of them, and nothing left.
func TestKindsOfVolumes(t *testing.T) {
	r := newRig(t)
	r.start()
	fs, big, raw := r.volume("fs"), r.volume("big", asXFSWherePresent(t)), r.volume("raw", asBlock)
	pod := r.pod("kinds", []corev1.Volume{claimed("fs"), claimed("big"), claimed("raw")}, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = c.VolumeMounts[:2], []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4321))}
	})
	r.waitPublished(pod)
	for _, pv := range []*corev1.PersistentVolume{fs, big} {
		info, err := os.Stat(r.target(pod, pv))
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Gid != 4321 || stat.Mode&0o2070 != 0o2070 {
			t.Errorf("%s: group %d, mode %o", pv.Name, stat.Gid, stat.Mode)
		}
	}
	link := r.layout.BlockLink(mounting.ID{Pod: pod.UID, Spec: raw.Name})
	if to, err := os.Readlink(link); err != nil || to != r.target(pod, raw) {
		t.Errorf("%s leads to %s, %v", link, to, err)
	}
	if device, err := loopdev.InodeOf(link); err != nil {
		t.Error(device, err)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 3, publish 3, unpublish 3, unstage 3" {
		t.Error(got)
	}
}

// asXFSWherePresent leaves ext4 where xfs cannot be made, so that the pod has as many volumes.
func asXFSWherePresent(t *testing.T) func(*corev1.PersistentVolume) {
	if hasXFS() {
		return asXFS
	}
	t.Log("mkfs.xfs is not installed: both filesystems are ext4")
	return func(*corev1.PersistentVolume) {}
}

// hasXFS reports whether the driver can make xfs here; a fresh Debian has no xfsprogs.
func hasXFS() bool {
	_, err := exec.LookPath("mkfs.xfs")
	return err == nil
}

// asXFS asks for 320 MiB, as mkfs.xfs makes nothing below 300.
func asXFS(pv *corev1.PersistentVolume) {
	pv.Spec.CSI.FSType, pv.Spec.Capacity = "xfs", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("320Mi")}
}

func asBlock(pv *corev1.PersistentVolume) {
	pv.Spec.VolumeMode, pv.Spec.CSI.FSType = new(corev1.PersistentVolumeBlock), ""
}

// Two pods share a volume: staged once, unstaged after the last. Two volumes with one handle: the
// same, with a target for each.
func TestSharedVolumes(t *testing.T) {
	r := newRig(t)
	r.start()
	pv := r.volume("shared")
	other := r.volume("same-handle", func(other *corev1.PersistentVolume) { other.Spec.CSI = pv.Spec.CSI.DeepCopy() })
	a, b := r.pod("a", []corev1.Volume{claimed("shared")}), r.pod("b", []corev1.Volume{claimed("same-handle"), claimed("shared")})
	r.waitPublished(a, b)
	if err := os.WriteFile(filepath.Join(r.target(a, pv), "f"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(r.target(b, other), "f")); err != nil || string(got) != "x" {
		t.Errorf("%s, %v", got, err)
	}
	r.remove(a)
	r.waitGone(a)
	if got := r.proxy.mounting(); got != "stage 1, publish 3, unpublish 1, unstage 0" {
		t.Error(got)
	}
	r.remove(b)
	r.waitGone(b)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 1, publish 3, unpublish 3, unstage 1" {
		t.Error(got)
	}
}

// 5.9: an online expansion, with the claim's status.
func TestExpansion(t *testing.T) {
	if !hasXFS() {
		t.Skip("mkfs.xfs is not installed, and ext4 grows while mounted with CAP_SYS_RESOURCE only")
	}
	r := newRig(t)
	r.start()
	pv := r.volume("grow", asXFS)
	pod := r.pod("grows", []corev1.Volume{claimed("grow")})
	r.waitPublished(pod)
	const more = 400 << 20
	_, err := r.conn.Controller().ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csi.CapacityRange{RequiredBytes: more}, VolumeCapability: capabilityOf(pv),
	})
	if err != nil {
		t.Fatal(err)
	}
	claim := &corev1.PersistentVolumeClaim{}
	if err := r.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "grow"}, claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(more, resource.BinarySI)}
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending,
	}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
	}}
	if err := r.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	pv.Spec.Capacity[corev1.ResourceStorage] = *resource.NewQuantity(more, resource.BinarySI)
	if err := r.Update(t.Context(), pv); err != nil {
		t.Fatal(err)
	}
	r.eventually("the claim has its new size", func() bool {
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
			t.Fatal(err)
		}
		size := claim.Status.Capacity[corev1.ResourceStorage]
		return size.Value() == more
	})
	if len(claim.Status.Conditions) > 0 || len(claim.Status.AllocatedResourceStatuses) > 0 {
		t.Errorf("left in the status: %v, %v", claim.Status.Conditions, claim.Status.AllocatedResourceStatuses)
	}
	if n := r.proxy.count("NodeExpandVolume"); n != 1 {
		t.Errorf("%d calls", n)
	}
	var stat syscall.Statfs_t
	if err := syscall.Statfs(r.target(pod, pv), &stat); err != nil || int64(stat.Blocks)*stat.Bsize < 330<<20 {
		t.Errorf("the filesystem has %d bytes, %v", int64(stat.Blocks)*stat.Bsize, err)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
}

// 5.6: an inline volume with pod info, tokens and a secret. The proxy takes the place of a driver
// that has such volumes.
func TestInlineVolume(t *testing.T) {
	r := newRig(t)
	info := &storagev1.CSIDriver{}
	if err := r.Get(t.Context(), client.ObjectKey{Name: driverName}, info); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), info); err != nil {
		t.Fatal(err)
	}
	r.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Ephemeral"},
		TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}, RequiresRepublish: new(true),
	}})
	r.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"}, StringData: map[string]string{"k": "v"}})
	r.proxy.setHook(func(_ context.Context, method, _ string) error {
		switch method {
		case "NodePublishVolume", "NodeUnpublishVolume":
			return errAnswered
		}
		return nil
	})
	r.start()
	pod := r.pod("inline", []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: driverName, VolumeAttributes: map[string]string{"a": "b"}, NodePublishSecretRef: &corev1.LocalObjectReference{Name: "key"},
	}}}})
	r.waitPublished(pod)
	published := requests[*csi.NodePublishVolumeRequest](r.proxy)
	if len(published) != 1 {
		t.Fatalf("%d requests", len(published))
	}
	got := published[0]
	if got.VolumeContext["csi.storage.k8s.io/pod.name"] != "inline" || got.VolumeContext["csi.storage.k8s.io/ephemeral"] != "true" ||
		got.VolumeContext["a"] != "b" || got.Secrets["k"] != "v" || !strings.Contains(got.VolumeContext[mounting.TokensKey], `"vault":{"token":`) {
		t.Errorf("%v", got)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 0, publish 1, unpublish 1, unstage 0" {
		t.Error(got)
	}
}
