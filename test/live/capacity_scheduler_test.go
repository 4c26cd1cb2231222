package live

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/rolestest"
)

// The real kube-scheduler uses the published capacities. Three zones have room for four, one and no
// volumes: five pods are scheduled to the first two, without a failed CreateVolume. A sixth pod
// waits, and is scheduled when a zone gets more room.
func TestSchedulerAvoidsFullZones(t *testing.T) {
	p := newLiveCluster(t, cluster.Scheduler)
	const gib = 1 << 30
	d := newZonedDriver(map[string]int64{"a": 4 * gib, "b": gib, "full": gib / 2})
	t.Setenv("NAMESPACE", process.SystemNamespace)
	p.create(
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
		&storagev1.CSIDriver{ObjectMeta: metav1Name(d.name), Spec: storagev1.CSIDriverSpec{
			AttachRequired: new(false), StorageCapacity: new(true),
		}},
	)
	p.waitingClass("fast", d.name, nil)
	for _, zone := range []string{"a", "b", "full"} {
		p.zonedNode("node-"+zone, zone, d.name)
		p.editNode("node-"+zone, func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("10")}
		})
	}
	binder, _, _ := p.controllers()
	rolestest.InBackground(t, binder.Run)
	socket := d.serve(t)
	_, _, end := p.publishing(socket, "--capacity-ownerref-level=-1", "--capacity-poll-interval=10h")
	p.awaitCapacities("all zones", map[string]string{"fast a": "4Gi", "fast b": "1Gi", "fast full": "512Mi"})

	zones := map[string]int{}
	for i, left := range []int{4, 3, 2, 1, 0} { // one after the other, as each changes what is published
		pod := p.podWithVolume(fmt.Sprintf("pod-%d", i), "fast")
		await(p, pod.Name+" is scheduled", pod, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
		zones[pod.Spec.NodeName]++
		rolestest.Eventually(t, "the new capacity is published", func() error { return p.hasRoomFor(left) })
	}
	if zones["node-a"] != 4 || zones["node-b"] != 1 || zones["node-full"] != 0 {
		t.Errorf("pods by node: %v", zones)
	}
	if creates := d.called("CreateVolume"); creates != 5 || d.refused != 0 {
		t.Errorf("%d calls, %d of them refused; want 5 and 0", creates, d.refused)
	}
	late := p.podWithVolume("late", "fast")
	await(p, "the pod without room waits", late, func(pod *corev1.Pod) bool {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true
			}
		}
		return false
	})
	d.set(func(d *zonedDriver) { d.room["b"] += gib }) // an administrator adds a disk, and a poll is due
	end()
	p.publishing(socket, "--capacity-ownerref-level=-1")
	await(p, "the pod is scheduled", late, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "node-b" })
	if d.refused != 0 {
		t.Errorf("%d calls were refused", d.refused)
	}
}

// hasRoomFor returns an error unless the published capacities are room for so many volumes of 1Gi.
func (p liveCluster) hasRoomFor(volumes int) error {
	_, objects := p.capacities()
	room := 0
	for i := range objects {
		room += int(objects[i].Capacity.Value() >> 30)
	}
	if room != volumes {
		return fmt.Errorf("room for %d volumes is published, want %d", room, volumes)
	}
	return nil
}

// podWithVolume creates a pod with a claim of 1Gi.
func (p liveCluster) podWithVolume(name, class string) *corev1.Pod {
	p.Helper()
	p.claim(name, &class)
	pod := podWith(name)
	p.create(pod)
	return pod
}

// podWith returns a pod that uses the claim with its name.
func podWith(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		Containers:                   []corev1.Container{{Name: "main", Image: "none"}},
		AutomountServiceAccountToken: new(false),
		Tolerations:                  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}},
	}}
}
