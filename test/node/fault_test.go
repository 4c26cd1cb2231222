package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/roles/node"
)

// 5.10: an agent that starts again finds what is mounted. A pod that stays keeps its data and gets
// no second mount; one that went meanwhile is unpublished.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.start()
	kept, gone, raw := r.volume("kept"), r.volume("gone"), r.volume("raw", asBlock)
	stays, goes := r.pod("stays", []corev1.Volume{claimed("kept")}), r.pod("goes", []corev1.Volume{claimed("gone")})
	device := r.pod("device", []corev1.Volume{claimed("raw")}, asDevices)
	r.waitPublished(stays, goes, device)
	file := filepath.Join(r.target(stays, kept), "f")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.stopAgent()
	before, err := mount.Below(r.root)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), goes, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	r.proxy.reset()
	r.start()
	r.eventually("the volume of the pod that went is unpublished", func() bool { return r.proxy.count("NodeUnpublishVolume") == 1 })
	r.eventually("the others are published again", func() bool { return r.proxy.count("NodePublishVolume") == 2 })
	r.eventually("one device less", func() bool { return r.proxy.count("NodeUnstageVolume") == 1 })
	if got, err := os.ReadFile(file); err != nil || string(got) != "x" {
		t.Errorf("%s, %v", got, err)
	}
	r.eventually("two mounts less", func() bool { // the call is counted before it has ended
		after, err := mount.Below(r.root)
		return err == nil && len(after) == len(before)-2
	})
	if _, err := os.Lstat(r.target(goes, gone)); !os.IsNotExist(err) {
		t.Error(err)
	}
	_ = raw
	r.remove(stays, device)
	r.waitGone(stays, device)
	r.waitClean()
}

// A driver that hangs has deadlines; the volumes of another driver go on, and so do its own
// afterwards.
func TestDriverHangs(t *testing.T) {
	r := newRig(t)
	release := make(chan struct{})
	r.proxy.setHook(func(ctx context.Context, method, volume string) error {
		if method != "NodeStageVolume" || volume != "pv-hangs" {
			return nil
		}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	r.start(func(n *node.Node) { n.Timeout = 2 * time.Second })
	r.volume("hangs")
	r.volume("works")
	hangs, works := r.pod("hangs", []corev1.Volume{claimed("hangs")}), r.pod("works", []corev1.Volume{claimed("works")})
	r.waitPublished(works)
	r.eventually("the pod says why", func() bool { return r.condition(hangs).Status == corev1.ConditionFalse })
	t.Log(r.condition(hangs).Message)
	close(release)
	r.waitPublished(hangs)
	r.remove(hangs, works)
	r.waitGone(hangs, works)
	r.waitClean()
}

// 5.5, 5.6: a final error leaves nothing on disk and causes an event; a retry succeeds.
func TestErrors(t *testing.T) {
	r := newRig(t)
	failing := map[string]error{"NodeStageVolume": status.Error(codes.Internal, "no stage"), "NodePublishVolume": status.Error(codes.Internal, "no target")}
	r.proxy.setHook(func(_ context.Context, method, _ string) error { return failing[method] })
	r.start()
	pv := r.volume("data")
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	r.eventually("told", func() bool {
		return r.hasEvent(pod, "FailedMount", "MountVolume.MountDevice failed for volume \"pv-data\"")
	})
	failing2 := map[string]error{"NodePublishVolume": failing["NodePublishVolume"]}
	r.proxy.setHook(func(_ context.Context, method, _ string) error { return failing2[method] })
	r.eventually("told", func() bool { return r.hasEvent(pod, "FailedMount", "MountVolume.SetUp failed for volume \"pv-data\"") })
	if _, err := os.Lstat(r.target(pod, pv)); !os.IsNotExist(err) {
		t.Error(err)
	}
	r.proxy.setHook(nil)
	r.waitPublished(pod)
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
}

func (r *rig) hasEvent(pod *corev1.Pod, reason, message string) bool {
	var events corev1.EventList
	if err := r.List(r.t.Context(), &events, client.InNamespace(pod.Namespace)); err != nil {
		return false
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == pod.UID && e.Reason == reason && len(e.Message) >= len(message) && e.Message[:len(message)] == message {
			return true
		}
	}
	return false
}

// 5.12: the CSINode, the annotation and the labels; a driver that goes is removed, and its volumes
// wait for it.
func TestRegistration(t *testing.T) {
	r := newRig(t)
	r.start()
	csiNode := &storagev1.CSINode{}
	r.eventually("the CSINode has the driver", func() bool {
		return r.Get(t.Context(), client.ObjectKey{Name: nodeName}, csiNode) == nil && len(csiNode.Spec.Drivers) == 1
	})
	if d := csiNode.Spec.Drivers[0]; d.Name != driverName || d.NodeID != "node-id-1" || len(d.TopologyKeys) != 1 || d.Allocatable == nil {
		t.Errorf("%+v", d)
	}
	if len(csiNode.OwnerReferences) != 1 || csiNode.OwnerReferences[0].Kind != "Node" {
		t.Errorf("%v", csiNode.OwnerReferences)
	}
	n := &corev1.Node{}
	if err := r.Get(t.Context(), client.ObjectKey{Name: nodeName}, n); err != nil {
		t.Fatal(err)
	}
	if got := n.Annotations["csi.volume.kubernetes.io/nodeid"]; got != `{"test.purser":"node-id-1"}` {
		t.Error(got)
	}
	if n.Labels["topology.test.purser/node"] != "node-id-1" {
		t.Errorf("%v", n.Labels)
	}
	r.volume("data")
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	r.waitPublished(pod)
	r.stopRegistration()
	r.eventually("the CSINode is without the driver", func() bool {
		return r.Get(t.Context(), client.ObjectKey{Name: nodeName}, csiNode) == nil && len(csiNode.Spec.Drivers) == 0
	})
	r.remove(pod)
	late := r.pod("late", []corev1.Volume{claimed("data")})
	r.eventually("the pod waits for the driver", func() bool {
		return r.condition(late).Status == corev1.ConditionFalse
	})
	r.startRegistration()
	r.waitPublished(late)
	r.waitGone(pod)
	r.remove(late)
	r.waitGone(late)
	r.waitClean()
}

// 4.7, 5.13: a volume that is attached first. The node reports it in use, waits for its own list of
// attached volumes and for the VolumeAttachment, and takes the report back at the end.
func TestAttachable(t *testing.T) {
	r := newRig(t)
	r.requireAttach()
	r.start()
	pv := r.volume("data")
	pod := r.pod("one", []corev1.Volume{claimed("data")})
	n := &corev1.Node{}
	inUse := func() int {
		if err := r.Get(t.Context(), client.ObjectKey{Name: nodeName}, n); err != nil {
			t.Fatal(err)
		}
		return len(n.Status.VolumesInUse)
	}
	r.eventually("reported in use", func() bool { return inUse() == 1 })
	if r.proxy.count("NodeStageVolume") > 0 {
		t.Error("staged before it was attached")
	}
	r.attach(pv)
	r.waitPublished(pod)
	if got := requests[interface{ GetPublishContext() map[string]string }](r.proxy); len(got) < 2 || got[0].GetPublishContext()["dev"] != "a" {
		t.Errorf("%v", got)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	r.eventually("no volume in use", func() bool { return inUse() == 0 })
}

// Many pods with two volumes each, at once.
func TestManyPods(t *testing.T) {
	pods := 200
	if testing.Short() {
		pods = 20
	}
	r := newRig(t)
	r.start()
	all := make([]*corev1.Pod, pods)
	for i := range all {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		r.volume(a)
		r.volume(b)
	}
	r.requests.reset()
	began := time.Now()
	for i := range all {
		all[i] = r.pod(fmt.Sprintf("p%d", i), []corev1.Volume{claimed(fmt.Sprintf("a%d", i)), claimed(fmt.Sprintf("b%d", i))})
	}
	r.waitPublished(all...)
	published := time.Since(began)
	began = time.Now()
	r.remove(all...)
	r.waitGone(all...)
	r.waitClean()
	t.Logf("%d pods: published in %s, gone in %s, requests of the agent: %s", pods, published, time.Since(began), r.requests.text())
	want := fmt.Sprintf("stage %[1]d, publish %[1]d, unpublish %[1]d, unstage %[1]d", 2*pods)
	if got := r.proxy.mounting(); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if r.requests.reads() > 0 {
		t.Errorf("requests of the agent: %s", r.requests.text())
	}
}
