package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/names"
)

var (
	attachingApart    = &processSet{ours: []role{attachDetach, csiAttacher}, startOthers: startKubelets, check: end.ofAttaching, kinds: attachKinds, disturb: disturbPods}
	attachingTogether = &processSet{ours: []role{attachPlane}, startOthers: startKubelets, check: end.ofAttaching, kinds: attachKinds, disturb: disturbPods}
)

// disks creates bound pairs of a claim and a volume, each of which is on one node at a time.
func disks(handles ...string) func(*user) {
	return func(u *user) {
		u.world.driver.Locks = true
		for _, name := range handles {
			u.boundPair(name, corev1.ReadWriteOnce)
		}
	}
}

// share creates a volume that may be on many nodes.
func share(u *user) {
	u.world.driver.Locks = true
	u.world.attaching.mark(u.world.attaching.shared, "s", true)
	u.boundPair("s", corev1.ReadWriteMany)
}

// boundPair is a claim and its volume, both of the same name, which is the handle too.
func (u *user) boundPair(name string, mode corev1.PersistentVolumeAccessMode) {
	u.boundVolume(name, name, mode)
}

// boundVolume is a claim whose name is the handle, and its PersistentVolume of any name.
func (u *user) boundVolume(name, volume string, mode corev1.PersistentVolumeAccessMode) {
	attaching := u.world.attaching
	attaching.mu.Lock()
	attaching.handles[volume] = name
	attaching.mu.Unlock()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: volume, AccessModes: []corev1.PersistentVolumeAccessMode{mode}},
	}
	_ = u.api.Create(u.world.ctx, claim)
	claim.Status.Phase = corev1.ClaimBound
	_ = u.api.Status().Update(u.world.ctx, claim)
	_ = u.api.Create(u.world.ctx, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}, Spec: corev1.PersistentVolumeSpec{
		AccessModes:            []corev1.PersistentVolumeAccessMode{mode},
		ClaimRef:               &corev1.ObjectReference{Namespace: claimNamespace, Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: name}},
	}})
}

// replaceVolume forces a claim and its PersistentVolume away, and creates both again: the new
// PersistentVolume has another name and the same handle.
func (u *user) replaceVolume(name, volume, next string) {
	u.world.log("administrator replaces PersistentVolume %s by %s", volume, next)
	for _, o := range []client.Object{
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name}},
	} {
		_ = u.api.Delete(u.world.ctx, o)
		_ = u.api.Patch(u.world.ctx, o, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	u.boundVolume(name, next, corev1.ReadWriteOnce)
}

// runPod starts a pod with a claim on a node.
func (u *user) runPod(name, node, claim string) {
	u.step()
	u.world.log("pod %s comes to node %s", name, node)
	u.try(func() error {
		return u.api.Create(u.world.ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name, Finalizers: []string{"sim/kubelet"}},
			Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}}},
		})
	})
}

func (u *user) deletePod(name string) {
	u.step()
	u.world.log("user deletes pod %s", name)
	_ = u.api.Delete(u.world.ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name}})
}

// forceDeletePod takes the object away, whatever runs.
func (u *user) forceDeletePod(name string) {
	u.deletePod(name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: claimNamespace, Name: name}}
	_ = u.api.Patch(u.world.ctx, pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

func (u *user) getPod(name string) *corev1.Pod {
	pod := &corev1.Pod{}
	if u.api.Get(u.world.ctx, client.ObjectKey{Namespace: claimNamespace, Name: name}, pod) != nil {
		return nil
	}
	return pod
}

// untilRuns waits for pods, as far as they exist.
func (u *user) untilRuns(all ...string) {
	u.until(func() bool {
		for _, name := range all {
			if pod := u.getPod(name); pod != nil && pod.DeletionTimestamp == nil && !attachment.HasRunning(pod) {
				return false
			}
		}
		return true
	})
}

func (u *user) untilGone(name string) { u.until(func() bool { return u.getPod(name) == nil }) }

// killNode stops the kubelet of a node, whose health is unknown soon.
func (u *user) killNode(name string) {
	u.step()
	u.world.log("node %s dies", name)
	u.world.attaching.mark(u.world.attaching.dead, name, true)
	u.editNode(name, func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown })
}

func (u *user) editNode(name string, edit func(*corev1.Node)) {
	u.try(func() error {
		node := &corev1.Node{}
		if err := u.api.Get(u.world.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		edit(node)
		return u.api.Status().Update(u.world.ctx, node)
	})
}

// takeOutOfService taints a node, after which its volumes may be detached at once.
func (u *user) takeOutOfService(name string) {
	u.world.log("node %s is out of service", name)
	u.world.attaching.mark(u.world.attaching.forced, name, true)
	u.try(func() error {
		node := &corev1.Node{}
		if err := u.api.Get(u.world.ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: names.TaintOutOfService, Effect: corev1.TaintEffectNoExecute})
		return u.api.Update(u.world.ctx, node)
	})
}

func (u *user) untilNothingIsAttached() {
	u.until(func() bool { return len(u.world.driver.Published()) == 0 })
}

// attachScripts are what happens to pods; each is played by two processes, and by one.
var attachScripts = []workload{
	{name: "a pod comes", small: true, setup: disks("x"), writes: 5, writesTogether: 4, script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
	}},
	{name: "a pod comes and goes", small: true, setup: disks("x"), writes: 8, writesTogether: 7, script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.deletePod("p")
		u.untilNothingIsAttached()
	}},
	{name: "a pod moves", small: true, setup: disks("x"), writes: 12, writesTogether: 10, script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.deletePod("p")
		u.untilGone("p")
		u.runPod("q", "b", "x")
		u.untilRuns("q")
	}},
	{name: "a pod moves before the previous one is gone", small: true, setup: disks("x"), writes: 12, writesTogether: 10, script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.runPod("q", "b", "x")
		u.pause(2 * time.Second)
		u.deletePod("p")
		u.untilRuns("q")
	}},
	{name: "a pod goes before it is attached and comes to another node", small: true, repeated: true, setup: disks("x"), script: func(u *user) {
		u.runPod("p", "a", "x")
		u.pause(5 * time.Millisecond)
		u.deletePod("p")
		u.runPod("q", "b", "x")
		u.untilRuns("q")
	}},
	{name: "a pod comes back while its volume is detached", small: true, repeated: true, setup: disks("x"), script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.deletePod("p")
		u.untilGone("p")
		u.runPod("q", "a", "x")
		u.untilRuns("q")
	}},
	{name: "three pods on one node", repeated: true, setup: disks("x", "y", "z"), script: func(u *user) {
		for _, name := range []string{"x", "y", "z"} {
			u.runPod("p"+name, "a", name)
		}
		u.untilRuns("px", "py", "pz")
		for _, name := range []string{"x", "y", "z"} {
			u.deletePod("p" + name)
		}
		u.untilNothingIsAttached()
	}},
	{name: "one of three pods on one node goes at once", repeated: true, contested: true, setup: disks("x", "y", "z"), script: func(u *user) {
		for _, name := range []string{"x", "y", "z"} {
			u.runPod("p"+name, "a", name)
		}
		u.pause(6 * time.Millisecond)
		u.deletePod("py")
		u.untilRuns("px", "pz")
		u.runPod("qy", "b", "y")
		u.untilRuns("qy")
	}},
	{name: "the pods of two nodes go at once, and one comes back", repeated: true, setup: disks("x", "y", "z"), script: func(u *user) {
		on := map[string]string{"x": "a", "y": "b", "z": "b"}
		for _, name := range []string{"x", "y", "z"} {
			u.runPod("p"+name, on[name], name)
		}
		u.untilRuns("px", "py", "pz")
		for _, name := range []string{"x", "y", "z"} {
			u.deletePod("p" + name)
		}
		u.untilGone("pz")
		u.runPod("qz", "b", "z")
		u.untilRuns("qz")
		u.deletePod("qz")
		u.untilNothingIsAttached()
	}},
	{name: "a shared volume on two nodes", setup: share, script: func(u *user) {
		u.runPod("p", "a", "s")
		u.runPod("q", "b", "s")
		u.untilRuns("p", "q")
		if p, q := u.getPod("p"), u.getPod("q"); p != nil && q != nil && q.DeletionTimestamp == nil && !attachment.HasRunning(q) {
			u.world.violate("A5: pods p and q do not run together")
		}
		u.deletePod("p")
		u.untilGone("p")
		u.deletePod("q")
		u.untilNothingIsAttached()
	}},
	{name: "a node dies", small: true, setup: disks("x"), script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.killNode("a")
		u.forceDeletePod("p")
		u.runPod("q", "b", "x")
		u.pause(forceAfter - time.Second)
		u.world.attaching.mark(u.world.attaching.forced, "a", true)
		u.untilRuns("q")
	}},
	{name: "a node is out of service", small: true, setup: disks("x"), script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.killNode("a")
		u.forceDeletePod("p")
		u.runPod("q", "b", "x")
		u.pause(time.Second)
		u.takeOutOfService("a")
		u.untilRuns("q")
	}},
	{name: "a node is deleted", small: true, setup: disks("x"), script: func(u *user) {
		u.runPod("p", "a", "x")
		u.untilRuns("p")
		u.world.attaching.mark(u.world.attaching.dead, "a", true)
		u.world.attaching.mark(u.world.attaching.forced, "a", true)
		u.world.log("node a is deleted")
		_ = u.api.Delete(u.world.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
		u.forceDeletePod("p")
		u.runPod("q", "b", "x")
		u.untilRuns("q")
	}},
}

var attachWorkloads = func() (all []workload) {
	for _, c := range []*processSet{attachingApart, attachingTogether} {
		for _, w := range attachScripts {
			if w.processSet = c; c == attachingTogether {
				w.name += ", in one process"
				w.writes = w.writesTogether
			}
			all = append(all, w)
		}
	}
	return all
}()
