package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
)

// Branch is one object around another, with the one thing that is wrong with it.
type Branch struct {
	Object   Ref      `json:"object"`
	State    string   `json:"state"`
	Age      string   `json:"age,omitempty"`
	Wrong    string   `json:"wrong,omitempty"`
	Children []Branch `json:"children,omitempty"`
}

// Tree returns the object and the objects that depend on it: pods to claims to volumes to
// attachments, classes and snapshots. Two levels of indirection are followed, and no object is
// named twice. ok is false if the object is not there.
func (c *Cluster) Tree(ref Ref) (root Branch, ok bool) {
	w := &walk{Cluster: c, seen: map[Ref]bool{}}
	var found *Branch
	switch ref.Kind {
	case Pod:
		found = branchOf(c.index.pods[key(ref)], w.pod)
	case Claim:
		found = branchOf(c.index.claims[key(ref)], w.claim)
	case Volume:
		found = branchOf(c.index.volumes[ref.Name], w.volume)
	case Class:
		found = branchOf(c.index.classes[ref.Name], w.class)
	case Node:
		found = branchOf(c.index.nodes[ref.Name], w.node)
	case Snapshot:
		found = branchOf(c.index.snapshots[key(ref)], w.snapshot)
	case Attachment:
		found = branchOf(c.attachmentNamed(ref.Name), w.attachment)
	case Deployment, StatefulSet, DaemonSet, ReplicaSet, Job:
		found = branchOf(c.workloadOf(ref), w.workload)
	case Namespace:
		found = branchOf(c.index.namespaces[ref.Name], w.namespace)
	default:
	}
	if found == nil {
		found = w.used(ref)
	}
	if found == nil {
		return Branch{Object: ref}, false
	}
	return *found, true
}

// used shows what uses an object that has no branches of its own; nil for one that is not there.
func (w *walk) used(ref Ref) *Branch {
	report := w.Explain(ref)
	if report.State == Unknown {
		return nil
	}
	b := Branch{Object: ref, State: report.Summary}
	if len(report.Findings) > 0 {
		b.Wrong = "waits for " + firstLine(report.Findings[0].WaitsFor)
	}
	for _, user := range report.Users {
		child := Branch{Object: user.Object, State: "uses it"}
		if user.Waits != "" {
			child.Wrong = "waits for " + firstLine(user.Waits)
		}
		b.Children = append(b.Children, child)
	}
	return &b
}

// branchOf returns nil for an object that is not there.
func branchOf[T any](object *T, branch func(*T) Branch) *Branch {
	if object == nil {
		return nil
	}
	b := branch(object)
	return &b
}

func key(ref Ref) types.NamespacedName {
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// walk remembers which objects are in the tree.
type walk struct {
	*Cluster
	seen map[Ref]bool
}

// first reports whether the object is new in the tree, and notes it.
func (w *walk) first(ref Ref) bool {
	was := w.seen[ref]
	w.seen[ref] = true
	return !was
}

func (w *walk) branch(report Report, state string, created time.Time) Branch {
	b := Branch{Object: report.Object, State: state, Age: age(w.Now.Sub(created))}
	if len(report.Findings) > 0 {
		b.Wrong = "waits for " + firstLine(report.Findings[0].WaitsFor)
	}
	return b
}

func (w *walk) pod(pod *corev1.Pod) Branch {
	w.first(podRef(pod))
	b := w.branch(w.explainPod(pod), podState(pod), pod.CreationTimestamp.Time)
	for _, volume := range podVolumes(pod) {
		ref := Ref{Claim, volume.claim.Namespace, volume.claim.Name}
		if claim := w.index.claims[volume.claim]; claim == nil {
			b.Children = append(b.Children, Branch{
				Object: ref,
				State:  "absent",
				Wrong:  "the pod names it as volume " + volume.name,
			})
		} else if w.first(ref) {
			b.Children = append(b.Children, w.claim(claim))
		}
	}
	if node := w.index.nodes[pod.Spec.NodeName]; node != nil && w.first(Ref{Kind: Node, Name: node.Name}) {
		b.Children = append(b.Children, w.branch(w.explainNode(node), nodeState(node), node.CreationTimestamp.Time))
	}
	return b
}

func (w *walk) claim(claim *corev1.PersistentVolumeClaim) Branch {
	w.first(claimRef(claim))
	state := string(claim.Status.Phase)
	if claim.DeletionTimestamp != nil {
		state = "being deleted"
	}
	b := w.branch(w.explainClaim(claim), fmt.Sprintf("%s %s", state, capacityOf(claim)), claim.CreationTimestamp.Time)
	if class := w.index.classes[objects.ClaimClass(claim)]; class != nil &&
		w.first(Ref{Kind: Class, Name: class.Name}) {
		b.Children = append(b.Children, w.branch(
			w.explainClass(class), class.Provisioner, class.CreationTimestamp.Time,
		))
	}
	if pv := w.index.volumes[claim.Spec.VolumeName]; pv != nil && w.first(volumeRef(pv)) {
		b.Children = append(b.Children, w.volume(pv))
	}
	if prime := w.primeOf(claim); prime != nil && claim.Spec.VolumeName == "" && w.first(claimRef(prime)) {
		b.Children = append(b.Children, w.claim(prime))
	}
	for _, pod := range w.index.users[keyOf(claim)] {
		if w.first(podRef(pod)) {
			b.Children = append(b.Children, w.branch(w.explainPod(pod), podState(pod), pod.CreationTimestamp.Time))
		}
	}
	for _, s := range w.Snapshots {
		if s.Namespace == claim.Namespace && deref(s.Spec.Source.PersistentVolumeClaimName) == claim.Name &&
			w.first(snapshotRef(s)) {
			b.Children = append(b.Children, w.snapshot(s))
		}
	}
	return b
}

func (w *walk) volume(pv *corev1.PersistentVolume) Branch {
	w.first(volumeRef(pv))
	b := w.branch(w.explainVolume(pv), string(pv.Status.Phase), pv.CreationTimestamp.Time)
	if claim := w.index.claims[claimOf(pv)]; claim != nil && w.first(claimRef(claim)) {
		b.Children = append(b.Children, w.claim(claim))
	}
	for _, va := range w.index.attachments[pv.Name] {
		if w.first(attachmentRef(va)) {
			b.Children = append(b.Children, w.attachment(va))
		}
	}
	return b
}

func (w *walk) attachment(va *storagev1.VolumeAttachment) Branch {
	w.first(attachmentRef(va))
	state := "attaching to " + va.Spec.NodeName
	switch {
	case va.DeletionTimestamp != nil:
		state = "detaching from " + va.Spec.NodeName
	case va.Status.Attached:
		state = "attached to " + va.Spec.NodeName
	}
	return w.branch(w.explainAttachment(va), state, va.CreationTimestamp.Time)
}

func (w *walk) class(class *storagev1.StorageClass) Branch {
	w.first(Ref{Kind: Class, Name: class.Name})
	b := w.branch(w.explainClass(class), class.Provisioner, class.CreationTimestamp.Time)
	for _, claim := range w.Claims {
		if objects.ClaimClass(claim) == class.Name && claim.Status.Phase != corev1.ClaimBound &&
			w.first(claimRef(claim)) {
			b.Children = append(b.Children, w.branch(w.explainClaim(claim), string(claim.Status.Phase),
				claim.CreationTimestamp.Time))
		}
	}
	sortBranches(b.Children)
	return b
}

func (w *walk) node(node *corev1.Node) Branch {
	w.first(Ref{Kind: Node, Name: node.Name})
	b := w.branch(w.explainNode(node), nodeState(node), node.CreationTimestamp.Time)
	for _, va := range w.Attachments {
		if va.Spec.NodeName == node.Name && w.first(attachmentRef(va)) {
			b.Children = append(b.Children, w.attachment(va))
		}
	}
	for _, pod := range w.Pods {
		if pod.Spec.NodeName == node.Name && len(podVolumes(pod)) > 0 && w.first(podRef(pod)) {
			b.Children = append(b.Children, w.branch(w.explainPod(pod), podState(pod), pod.CreationTimestamp.Time))
		}
	}
	return b
}

func (w *walk) snapshot(s *snapshotv1.VolumeSnapshot) Branch {
	w.first(snapshotRef(s))
	state := "not ready"
	if s.Status != nil && deref(s.Status.ReadyToUse) {
		state = "ready"
	}
	b := w.branch(w.explainSnapshot(s), state, s.CreationTimestamp.Time)
	if content := w.contentOf(s); content != nil {
		b.Children = append(b.Children, Branch{
			Object: Ref{Kind: Content, Name: content.Name}, State: content.Spec.Driver,
			Age: age(w.Now.Sub(content.CreationTimestamp.Time)),
		})
	}
	return b
}

// namespace has the pods with volumes, then the claims and snapshots that no pod leads to.
func (w *walk) namespace(ns *corev1.Namespace) Branch {
	w.first(Ref{Kind: Namespace, Name: ns.Name})
	b := w.branch(w.explainNamespace(ns), string(ns.Status.Phase), ns.CreationTimestamp.Time)
	for _, pod := range w.Pods {
		if pod.Namespace == ns.Name && len(podVolumes(pod)) > 0 && w.first(podRef(pod)) {
			b.Children = append(b.Children, w.pod(pod))
		}
	}
	for _, claim := range w.Claims {
		if claim.Namespace == ns.Name && w.first(claimRef(claim)) {
			b.Children = append(b.Children, w.claim(claim))
		}
	}
	for _, s := range w.Snapshots {
		if s.Namespace == ns.Name && w.first(snapshotRef(s)) {
			b.Children = append(b.Children, w.snapshot(s))
		}
	}
	return b
}

func nodeState(node *corev1.Node) string {
	if isReady(node) {
		return "Ready"
	}
	return "not ready"
}

func sortBranches(list []Branch) {
	slices.SortFunc(list, func(a, b Branch) int { return cmp.Compare(a.Object.String(), b.Object.String()) })
}
