package node

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/names"
)

// eventually waits for a condition.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(timeout)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("after %s: not yet: %s; %s", timeout, what, r.proxy.mounting())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// condition returns the agent's condition of a pod.
func (r *rig) condition(pod *corev1.Pod) corev1.PodCondition {
	var now corev1.Pod
	if err := r.Get(r.t.Context(), client.ObjectKeyFromObject(pod), &now); err != nil {
		return corev1.PodCondition{}
	}
	for _, c := range now.Status.Conditions {
		if c.Type == "purser/VolumesPublished" {
			return c
		}
	}
	return corev1.PodCondition{}
}

func (r *rig) waitPublished(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		r.eventually("volumes of pod "+pod.Name+" published", func() bool { return r.condition(pod).Status == corev1.ConditionTrue })
	}
}

func (r *rig) remove(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		if err := r.Delete(r.t.Context(), pod); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) waitGone(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		r.eventually("pod "+pod.Name+" gone", func() bool {
			return apierrors.IsNotFound(r.Get(r.t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}))
		})
	}
}

// waitClean waits until nothing of any volume is left below the root directory.
func (r *rig) waitClean() {
	r.t.Helper()
	deadline := time.Now().Add(timeout)
	for len(r.leftovers()) > 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if left := r.leftovers(); len(left) > 0 {
		r.t.Errorf("left: %v", left)
	}
	if left, err := mount.Below(r.root); err != nil || len(left) > 0 {
		r.t.Errorf("mounted: %v, %v", left, err)
	}
}

// leftovers are the mounts below the root directory; once there are none, the files and folders of
// volumes, and the devices. It does not walk into a mount, which could not be unmounted meanwhile.
func (r *rig) leftovers() []string {
	left, err := mount.Below(r.root)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(left) > 0 {
		return left
	}
	for _, dir := range []string{r.layout.Pods(), r.layout.Plugins()} {
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			rel, _ := filepath.Rel(r.root, path)
			base := filepath.Dir(path) == r.layout.BlockDevices() && (filepath.Base(path) == "staging" || filepath.Base(path) == "publish")
			if err == nil && path != dir && !base && len(strings.Split(rel, "/")) > 4 {
				left = append(left, rel)
			}
			return nil
		})
	}
	return left
}

// awaitRegistered waits until the driver's registration has written the Node and the CSINode.
func (r *rig) awaitRegistered() {
	r.t.Helper()
	r.eventually("registered", func() bool {
		node, csiNode := &corev1.Node{}, &storagev1.CSINode{}
		key := client.ObjectKey{Name: nodeName}
		return r.Get(r.t.Context(), key, node) == nil && node.Annotations[names.AnnNodeID] != "" &&
			r.Get(r.t.Context(), key, csiNode) == nil && len(csiNode.Spec.Drivers) == 1
	})
}
