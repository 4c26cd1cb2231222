package binder

import (
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
)

// inProcess is a provisioner in this process.
type inProcess struct {
	mu    sync.Mutex
	works bool
	given []string
}

func (p *inProcess) Takes(driver string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.works && driver == "d"
}

func (p *inProcess) Give(claim *corev1.PersistentVolumeClaim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.given = append(p.given, claim.Name)
}

// last is the claim that was given last.
func (p *inProcess) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.given) == 0 {
		return ""
	}
	return p.given[len(p.given)-1]
}

func (p *inProcess) cease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.works = false
}

// With the provisioner in the same process the annotations are not written; when it ceases to
// work, they are.
func TestHandOver(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		own := &inProcess{works: true}
		p := w.start(func(c *Config) { c.HandOver, c.Workers = own, 1 })
		w.create(dynamicClass("gold"), liveClaim("c", "gold"), liveVolume("v", "gold"), liveClaim("d", "gold"))
		w.expect("c Bound v; d Pending; v Bound c") // a volume that is there goes first
		if own.last() != "d" {
			t.Errorf("given %q", own.last())
		}
		w.wantEvents()
		p.api.take()
		own.cease()
		p.Recheck("d")
		w.settle()
		w.did(p, "1 claim")
		w.wantEvents("d Normal ExternalProvisioning Waiting for a volume to be created either by the external pr")
	})
}

func podUsing(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

// Classes that wait for a pod: no volume is requested before the claim has a node, and an event names
// the pods that it waits for. 8.23
func TestDelayed(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		own := &inProcess{works: true}
		p := w.start(func(c *Config) { c.HandOver = own })
		class := dynamicClass("late")
		class.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
		claim := liveClaim("c", "late")
		w.create(class, claim, liveVolume("v", "late"))
		w.expect("c Pending; v Available")
		w.wantEvents("c Normal WaitForFirstConsumer waiting for first consumer to be created before binding")
		pod := func(name string) *corev1.Pod { return podUsing(name, "c") }
		w.create(pod("a"))
		w.wantEvents("c Normal WaitForPodScheduled waiting for pod a to be scheduled")
		w.create(pod("b"))
		w.wantEvents("c Normal WaitForPodScheduled waiting for pods a,b to be scheduled")
		edit(w, pod("a"), func(p *corev1.Pod) { p.Spec.NodeName = "n1" })
		w.wantEvents("c Normal WaitForPodScheduled waiting for pod b to be scheduled")
		w.unscheduled(pod("b"), "0/3 nodes are available")
		w.wantEvents("c Normal WaitForPodScheduled waiting for pod b to be scheduled (b: 0/3 nodes are availabl")
		w.unscheduled(pod("b"), "0/4 nodes are available") // a scheduler says much
		w.wantEvents()
		w.remove(pod("b"))
		w.wantEvents("c Normal WaitForFirstConsumer waiting for first consumer to be created before binding: pod") // 8.21
		if own.last() != "" {
			t.Error("given before it has a node")
		}
		edit(w, claim, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{names.AnnSelectedNode: "n1"}
		})
		if own.last() == "" {
			t.Error("not given with a node")
		}
		w.did(p, "1 volume status") // that it is available
	})
}

// unscheduled is the scheduler, which says why the pod has no node.
func (w *testCluster) unscheduled(pod *corev1.Pod, why string) {
	w.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		w.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: why}}
	if err := w.api.Status().Update(w.ctx, pod); err != nil {
		w.Fatal(err)
	}
	w.settle()
}
