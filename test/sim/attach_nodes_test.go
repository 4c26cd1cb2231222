package sim

import (
	"cmp"
	"encoding/json"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// attaching is a model of the kubelets of a world's nodes, with the invariants that are checked at
// each call. It is safe for concurrent use.
type attaching struct {
	world *world
	nodes []string

	mu      sync.Mutex
	mounted map[csidriver.Publication]bool // by handle and node name
	dead    map[string]bool                // nodes whose kubelet has stopped
	forced  map[string]bool                // nodes from which a detach may be forced
	shared  map[string]bool                // handles that may be on many nodes
	handles map[string]string              // of PersistentVolumes that have another name than their handle
}

// nodeID is the driver's id of a node.
func nodeID(node string) string { return "id-" + node }

func newAttaching(w *world, nodes ...string) *attaching {
	return &attaching{
		world: w, nodes: nodes, mounted: map[csidriver.Publication]bool{}, dead: map[string]bool{}, forced: map[string]bool{}, shared: map[string]bool{},
		handles: map[string]string{},
	}
}

// startKubelets creates the nodes and runs their kubelets.
func startKubelets(w *world) {
	w.attaching = newAttaching(w, "a", "b")
	api := w.server.Client()
	_ = api.Create(w.ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}})
	for i, name := range w.attaching.nodes {
		w.attaching.createNode(name)
		go w.attaching.run(name, time.Duration(i)*29*time.Microsecond)
	}
}

func (a *attaching) createNode(name string) {
	api := a.world.server.Client()
	_ = api.Create(a.world.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	_ = api.Create(a.world.ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: nodeID(name)}},
	}})
}

// kubeletReaction and kubeletPace differ from all other times, so that no two events happen at the
// same instant.
const (
	kubeletReaction = 910 * time.Microsecond
	kubeletPace     = 370 * time.Microsecond
)

// run is the kubelet of a node.
func (a *attaching) run(node string, offset time.Duration) {
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	a.world.server.Listen(changed)
	for {
		select {
		case <-a.world.ctx.Done():
			return
		case <-changed:
		}
		time.Sleep(kubeletReaction + offset)
		for a.world.ctx.Err() == nil && a.step(node) {
			time.Sleep(kubeletPace + offset)
		}
	}
}

func (a *attaching) is(set map[string]bool, name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return set[name]
}

func (a *attaching) mark(set map[string]bool, name string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	set[name] = is
}

func (a *attaching) isMounted(handle, node string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mounted[csidriver.Publication{Volume: handle, Node: node}]
}

func (a *attaching) setMounted(handle, node string, is bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mounted[csidriver.Publication{Volume: handle, Node: node}] = is
}

// step does the next action of a node's kubelet, and reports whether there was one. The order is
// the kubelet's: report a volume in use before it is mounted, mount it only if the node's list has
// it after that, and report it unused only after it is unmounted.
func (a *attaching) step(name string) bool {
	if a.is(a.dead, name) {
		return false
	}
	node := &corev1.Node{}
	if a.world.server.Client().Get(a.world.ctx, client.ObjectKey{Name: name}, node) != nil {
		return false
	}
	pods := a.podsOn(name)
	wanted := a.wantedOn(pods)
	for _, handle := range wanted {
		if !slices.Contains(node.Status.VolumesInUse, uniqueName(handle)) {
			return a.reportInUse(node, append(slices.Clone(node.Status.VolumesInUse), uniqueName(handle)))
		}
		if !a.isMounted(handle, name) && listsVolume(node, handle) {
			a.mount(handle, name)
			return true
		}
	}
	for _, pod := range pods {
		if a.stepPod(pod, name) {
			return true
		}
	}
	for _, unique := range node.Status.VolumesInUse {
		_, handle, _ := names.ParseUniqueVolumeName(string(unique))
		if slices.Contains(wanted, handle) || a.isNeeded(pods, handle) {
			continue
		}
		a.setMounted(handle, name, false)
		return a.reportInUse(node, slices.DeleteFunc(slices.Clone(node.Status.VolumesInUse), func(v corev1.UniqueVolumeName) bool { return v == unique }))
	}
	return false
}

// stepPod starts a pod whose volumes are mounted, stops a terminating pod, and removes a stopped
// one.
func (a *attaching) stepPod(pod *corev1.Pod, node string) bool {
	handle := a.handleOf(pod)
	switch runs := attachment.HasRunning(pod); {
	case pod.DeletionTimestamp == nil && !runs && handle != "" && a.isMounted(handle, node):
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		return a.world.server.Client().Status().Update(a.world.ctx, pod) == nil
	case pod.DeletionTimestamp != nil && runs:
		pod.Status.ContainerStatuses = nil
		return a.world.server.Client().Status().Update(a.world.ctx, pod) == nil
	case pod.DeletionTimestamp != nil:
		a.world.log("pod %s ends", pod.Name)
		pod.Finalizers = nil
		return a.world.server.Client().Update(a.world.ctx, pod) == nil
	}
	return false
}

func (a *attaching) mount(handle, node string) {
	a.world.log("node %s mounts %s", node, handle)
	a.setMounted(handle, node, true)
	if !slices.Contains(a.world.driver.Published(), csidriver.Publication{Volume: handle, Node: nodeID(node)}) {
		a.world.violate("A1: node %s lists volume %s, which is not published to it", node, handle)
	}
}

func (a *attaching) reportInUse(node *corev1.Node, used []corev1.UniqueVolumeName) bool {
	raw, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": used}})
	if err != nil {
		panic(err)
	}
	err = a.world.server.Client().Status().Patch(a.world.ctx, node, client.RawPatch(types.MergePatchType, raw))
	a.world.log("node %s uses %v", node.Name, used)
	return err == nil
}

func (a *attaching) podsOn(node string) (all []*corev1.Pod) {
	for _, pod := range apiserver.Objects(a.world.server, &corev1.Pod{}) {
		if pod.Spec.NodeName == node {
			all = append(all, pod)
		}
	}
	return all
}

// wantedOn are the handles of the volumes that the pods need.
func (a *attaching) wantedOn(pods []*corev1.Pod) (all []string) {
	for _, pod := range pods {
		if handle := a.handleOf(pod); handle != "" && pod.DeletionTimestamp == nil && !slices.Contains(all, handle) {
			all = append(all, handle)
		}
	}
	return all
}

// isNeeded reports whether a pod that has not stopped yet uses the volume.
func (a *attaching) isNeeded(pods []*corev1.Pod, handle string) bool {
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return attachment.HasRunning(pod) && a.handleOf(pod) == handle })
}

// handleOf is the handle of a pod's volume: claim and handle have the same name here.
func (a *attaching) handleOf(pod *corev1.Pod) string {
	if len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].PersistentVolumeClaim == nil {
		return ""
	}
	return pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName
}

// handleOfVolume is the handle of a PersistentVolume.
func (a *attaching) handleOfVolume(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.handles[name], name)
}

func uniqueName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(names.UniqueVolumeName(driverName, handle))
}

func listsVolume(node *corev1.Node, handle string) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == uniqueName(handle) })
}

// publishing checks a publish right before its effect.
func (a *attaching) publishing(at csidriver.Publication, before []csidriver.Publication) {
	for _, other := range before {
		if other.Volume == at.Volume && other.Node != at.Node && !a.is(a.shared, at.Volume) {
			a.world.violate("A2: volume %s is published to %s while it is published to %s", at.Volume, at.Node, other.Node)
		}
	}
	protected := func(va *storagev1.VolumeAttachment) bool {
		return a.handleOfVolume(*va.Spec.Source.PersistentVolumeName) == at.Volume && nodeID(va.Spec.NodeName) == at.Node &&
			slices.Contains(va.Finalizers, names.AttacherFinalizer(driverName))
	}
	if !slices.ContainsFunc(apiserver.Objects(a.world.server, &storagev1.VolumeAttachment{}), protected) {
		a.world.violate("A3: volume %s is published to %s without a finalizer on its VolumeAttachment", at.Volume, at.Node)
	}
}

// unpublishing checks an unpublish right before its effect.
func (a *attaching) unpublishing(at csidriver.Publication) {
	for _, node := range a.nodes {
		if nodeID(node) == at.Node && a.isMounted(at.Volume, node) && !a.is(a.forced, node) {
			a.world.violate("A4: volume %s is unpublished from %s, where it is mounted", at.Volume, node)
		}
	}
}

// ofAttaching checks at the end that exactly the volumes that pods need are attached, and nothing
// else is left.
func (e end) ofAttaching() {
	wanted := map[csidriver.Publication]bool{}
	for _, pod := range apiserver.Objects(e.server, &corev1.Pod{}) {
		if pod.DeletionTimestamp != nil && !e.attaching.is(e.attaching.dead, pod.Spec.NodeName) {
			e.violate("A5: pod %s does not end", pod.Name)
		}
		if handle := e.attaching.handleOf(pod); attachment.NeedsVolumes(pod) {
			wanted[csidriver.Publication{Volume: handle, Node: nodeID(pod.Spec.NodeName)}] = true
			if !attachment.HasRunning(pod) && !e.isGoing(handle) {
				e.violate("A5: pod %s does not run", pod.Name)
			}
		}
	}
	for _, is := range e.driver.Published() {
		if !wanted[is] {
			e.violate("A6: volume %s is left published to %s", is.Volume, is.Node)
		}
	}
	e.attachmentsAre(wanted)
	e.listsAre(wanted)
}

// isGoing reports whether the volume is being deleted, so that it is attached to no further node.
func (e end) isGoing(volume string) bool {
	return slices.ContainsFunc(e.volumes, func(pv *corev1.PersistentVolume) bool {
		return e.attaching.handleOfVolume(pv.Name) == volume && pv.DeletionTimestamp != nil
	})
}

func (e end) attachmentsAre(wanted map[csidriver.Publication]bool) {
	for _, va := range apiserver.Objects(e.server, &storagev1.VolumeAttachment{}) {
		at := csidriver.Publication{Volume: e.attaching.handleOfVolume(*va.Spec.Source.PersistentVolumeName), Node: nodeID(va.Spec.NodeName)}
		if !wanted[at] {
			e.violate("A7: VolumeAttachment of %s to %s is left, with finalizers %v", at.Volume, at.Node, va.Finalizers)
		}
		if va.DeletionTimestamp != nil {
			e.violate("A7: VolumeAttachment of %s to %s is stuck", at.Volume, at.Node)
		}
	}
}

func (e end) listsAre(wanted map[csidriver.Publication]bool) {
	for _, node := range apiserver.Objects(e.server, &corev1.Node{}) {
		for _, v := range node.Status.VolumesAttached {
			_, handle, _ := names.ParseUniqueVolumeName(string(v.Name))
			if !wanted[csidriver.Publication{Volume: handle, Node: nodeID(node.Name)}] {
				e.violate("A8: node %s lists volume %s, which it does not need", node.Name, handle)
			}
		}
	}
}

// disturbPods deletes all pods, and starts each again on the other node once it is gone.
func disturbPods(w *world) {
	for _, pod := range apiserver.Objects(w.server, &corev1.Pod{}) {
		w.log("user deletes pod %s", pod.Name)
		_ = w.server.Client().Delete(w.ctx, pod)
	}
}
