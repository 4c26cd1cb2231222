package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// 5.2: a pod that runs keeps its mount when its PersistentVolume or claim vanishes, or the claim is
// Lost, also across a restart of the agent. The volume goes with the pod.
func TestVolumeObjectsVanish(t *testing.T) {
	r := newRig(t)
	r.start()
	pvs := []*corev1.PersistentVolume{r.volume("nopv"), r.volume("noclaim"), r.volume("lost")}
	var pods []*corev1.Pod
	for _, name := range []string{"nopv", "noclaim", "lost"} {
		pods = append(pods, r.pod(name, []corev1.Volume{claimed(name)}))
	}
	r.waitPublished(pods...)
	claimOf := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	r.vanish(pvs[0].DeepCopy())
	r.vanish(claimOf("noclaim"))
	lost := claimOf("lost")
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(lost), lost); err != nil {
		t.Fatal(err)
	}
	lost.Status.Phase = corev1.ClaimLost
	if err := r.Status().Update(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	for i, words := range []string{"does not exist", "the claim does not exist", "PVC is not bound"} {
		r.eventually("the agent has seen "+pods[i].Name, func() bool { return strings.Contains(r.condition(pods[i]).Message, words) })
	}
	kept := func(when string) {
		t.Helper()
		r.volume("after-" + when)
		later := r.pod("after-"+when, []corev1.Volume{claimed("after-" + when)})
		r.waitPublished(later) // so the volumes that were enqueued before have been worked on
		r.remove(later)
		r.waitGone(later)
		for i, pod := range pods {
			file := filepath.Join(r.target(pod, pvs[i]), "lost+found")
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: the pod %s has lost its mount: %v", when, pod.Name, err)
			}
		}
		if got := r.proxy.count("NodeUnpublishVolume"); got != 1 {
			t.Errorf("%s: %d volumes unpublished, want that of pod %s alone", when, got, later.Name)
		}
	}
	kept("vanishing")
	r.stopAgent()
	r.proxy.reset()
	r.start()
	kept("restart")
	r.remove(pods...)
	r.waitGone(pods...)
	r.waitClean()
}

// 5.4: a PersistentVolume is deleted and made again under its name with another handle, which has the
// same folders. A pod that runs keeps the previous volume, and the next pod gets the new one.
func TestPersistentVolumeWithAnotherHandle(t *testing.T) {
	r := newRig(t)
	r.start()
	pv, other := r.volume("data"), r.volume("other")
	raw, otherRaw := r.volume("raw", asBlock), r.volume("other-raw", asBlock)
	app := r.pod("app", []corev1.Volume{claimed("data")})
	device := r.pod("device", []corev1.Volume{claimed("raw")}, asDevices)
	r.waitPublished(app, device)
	file := filepath.Join(r.target(app, pv), "hello")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, again := range []struct{ pv, other *corev1.PersistentVolume }{{pv, other}, {raw, otherRaw}} {
		r.vanish(again.pv.DeepCopy())
		again.pv.ObjectMeta = metav1.ObjectMeta{Name: again.pv.Name}
		again.pv.Spec.CSI.VolumeHandle = again.other.Spec.CSI.VolumeHandle
		r.create(again.pv)
	}
	late := r.pod("late", []corev1.Volume{claimed("raw")}, asDevices)
	r.eventually("the agent has seen both volumes", func() bool {
		return strings.Contains(r.condition(app).Message, "made again") && strings.Contains(r.condition(late).Message, "made again")
	})
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if got := r.proxy.mounting(); got != "stage 2, publish 2, unpublish 0, unstage 0" {
		t.Error(got)
	}
	r.remove(app, device)
	r.waitGone(app, device)
	next := r.pod("next", []corev1.Volume{claimed("data")})
	r.waitPublished(next, late)
	if _, err := os.Stat(filepath.Join(r.target(next, pv), "hello")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the next pod has the previous volume: %v", err)
	}
	r.remove(next, late)
	r.waitGone(next, late)
	r.waitClean()
	if got := r.proxy.mounting(); got != "stage 4, publish 4, unpublish 4, unstage 4" {
		t.Error(got)
	}
}

// vanish deletes an object whose finalizer no controller removes here.
func (r *rig) vanish(o client.Object) {
	r.t.Helper()
	if err := r.Delete(r.t.Context(), o); err != nil {
		r.t.Fatal(err)
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := r.Patch(r.t.Context(), o, patch); err != nil {
		r.t.Fatal(err)
	}
}
