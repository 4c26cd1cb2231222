package attachment

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// NeedsVolumes reports whether a pod is on a node and alive (4.2): not finished, and if it is being
// deleted, with a container that still runs.
func NeedsVolumes(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	return pod.DeletionTimestamp == nil || HasRunning(pod)
}

// HasRunning reports whether any container of a pod runs.
func HasRunning(pod *corev1.Pod) bool {
	runs := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, runs) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) ||
		slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, runs)
}

// isManaged reports whether the controller attaches for a node, and not its kubelet (4.2).
func isManaged(node *corev1.Node) bool {
	_, ok := node.Annotations[names.AnnManagedAttach]
	return ok
}

// isAttachable reports whether volumes of the driver are attached at all. A driver without an
// object is (4.2).
func (s Snapshot) isAttachable() bool {
	return s.Driver == nil || s.Driver.Spec.AttachRequired == nil || *s.Driver.Spec.AttachRequired
}

// isShared reports whether the volume may be attached to many nodes (4.4). A volume whose
// PersistentVolume is gone is not wanted anywhere, so that the answer does not matter.
func (s Snapshot) isShared() bool {
	return !slices.ContainsFunc(s.Volumes, objects.IsExclusive) && (s.Inline == nil || !objects.IsExclusive(s.Inline))
}

// name is that of the volume in events, as upstream's.
func (s Snapshot) name() string {
	if len(s.Volumes) > 0 {
		return s.Volumes[0].Name
	}
	return s.Inline.Name
}

// wanted returns the pods that need the volume by node, in a stable order.
func (s Snapshot) wanted() map[string][]*corev1.Pod {
	all := map[string][]*corev1.Pod{}
	if !s.isAttachable() || len(s.Volumes) == 0 && s.Inline == nil {
		return all
	}
	for _, pod := range s.Pods {
		node := s.Nodes[pod.Spec.NodeName]
		if NeedsVolumes(pod) && node != nil && isManaged(node) {
			all[pod.Spec.NodeName] = append(all[pod.Spec.NodeName], pod)
		}
	}
	for _, pods := range all {
		slices.SortFunc(pods, comparePods)
	}
	return all
}

// comparePods orders pods by age, and by name for the same age.
func comparePods(a, b *corev1.Pod) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(podKey(a).String(), podKey(b).String()),
	)
}

// isListed reports whether the node lists the volume, and no write that removes it is to come.
func (s Snapshot) isListed(node string) bool { return !s.Unlisting[node] && s.wasListed(node) }

// wasListed and isInUse read a node's status.
func (s Snapshot) wasListed(node string) bool {
	n := s.Nodes[node]
	return n != nil &&
		slices.ContainsFunc(
			n.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == s.Key.UniqueName() },
		)
}

// mayBeListed reports whether the node lists the volume, or will as soon as a write that has begun arrives.
func (s Snapshot) mayBeListed(node string) bool {
	return s.Listing[node] || s.Unlisting[node] || s.wasListed(node)
}

func isInUse(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return node != nil && slices.Contains(node.Status.VolumesInUse, volume)
}

func isHealthy(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func isOutOfService(node *corev1.Node) bool {
	return node != nil &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == names.TaintOutOfService })
}

// unwanted returns the nodes that have the volume, or may have it, and do not want it, sorted.
func (p *plan) unwanted() (all []string) {
	is := func(node string) bool { return p.wants[node] == nil }
	for _, va := range p.Attachments {
		if is(va.Spec.NodeName) {
			all = append(all, va.Spec.NodeName)
		}
	}
	for node := range p.Nodes {
		if is(node) && p.mayBeListed(node) {
			all = append(all, node)
		}
	}
	for _, changes := range []map[string]bool{p.Listing, p.Unlisting} {
		for node := range changes {
			if is(node) {
				all = append(all, node)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
