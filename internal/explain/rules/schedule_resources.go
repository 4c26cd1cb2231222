package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// requests are what the scheduler counts for a pod, in thousandths: the sum of its containers, or
// its largest init container if that is more.
func requests(pod *corev1.Pod) map[corev1.ResourceName]int64 {
	sum, largest := map[corev1.ResourceName]int64{}, map[corev1.ResourceName]int64{}
	for _, container := range pod.Spec.Containers {
		addTo(sum, container.Resources.Requests)
	}
	for _, container := range pod.Spec.InitContainers {
		if deref(container.RestartPolicy) == corev1.ContainerRestartPolicyAlways {
			addTo(sum, container.Resources.Requests)
			continue
		}
		for name, q := range container.Resources.Requests {
			largest[name] = max(largest[name], size.Milli(q))
		}
	}
	for name, amount := range largest {
		sum[name] = max(sum[name], amount)
	}
	addTo(sum, pod.Spec.Overhead)
	sum[corev1.ResourcePods] = 1000
	return sum
}

func addTo(sum map[corev1.ResourceName]int64, list corev1.ResourceList) {
	for name, q := range list {
		sum[name] = size.Sum(sum[name], size.Milli(q))
	}
}

// resourcesShort compares the requests of the pod with what the pods of the node leave (plugin
// NodeResourcesFit).
func (c *Cluster) resourcesShort(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if len(node.Status.Allocatable) == 0 {
		return refusal{}, false
	}
	used := map[corev1.ResourceName]int64{}
	lower := map[corev1.ResourceName]int64{} // of pods with a lower priority, which preemption could end
	for _, other := range c.index.podsOn[node.Name] {
		if isFinished(other) {
			continue
		}
		for name, amount := range requests(other) {
			used[name] = size.Sum(used[name], amount)
			if deref(other.Spec.Priority) < deref(pod.Spec.Priority) {
				lower[name] = size.Sum(lower[name], amount)
			}
		}
	}
	ref := Ref{Kind: Node, Name: node.Name}
	var short []string
	found := refusal{on: ref}
	wants := requests(pod)
	for _, name := range slices.Sorted(maps.Keys(wants)) {
		limit := size.Milli(node.Status.Allocatable[name])
		missing := size.Sum(used[name], wants[name]) - limit
		if wants[name] == 0 || missing <= 0 {
			continue
		}
		short = append(short, string(name)+" short")
		found.evidence = append(found.evidence, Evidence{
			ref, "status.allocatable." + string(name),
			fmt.Sprintf("%s, requested by its pods %s", amountText(name, limit), amountText(name, used[name])),
			amountText(name, wants[name]) + " more",
		})
		if lower[name] >= missing && deref(pod.Spec.PreemptionPolicy) == corev1.PreemptNever {
			found.evidence = append(found.evidence, Evidence{
				podRef(pod), "spec.preemptionPolicy", "Never",
				"PreemptLowerPriority, to end pods with a lower priority",
			})
		}
	}
	found.what = strings.Join(short, ", ")
	return found, len(short) > 0
}

// amountText prints thousandths as the resource is written.
func amountText(name corev1.ResourceName, milli int64) string {
	switch {
	case name == corev1.ResourceCPU && milli%1000 != 0:
		return fmt.Sprintf("%dm", milli)
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage:
		q := size.Quantity(milli / 1000)
		return q.String()
	}
	return fmt.Sprint(milli / 1000)
}

// preemption is about a pod for which the scheduler ends others (plugin DefaultPreemption); nil if
// none of the node it has picked is ending.
func (c *Cluster) preemption(pod *corev1.Pod, f Finding) *Finding {
	for _, victim := range c.index.podsOn[pod.Status.NominatedNodeName] {
		if victim.DeletionTimestamp == nil {
			continue
		}
		until := victim.DeletionTimestamp.Add(patience)
		f.Reason, f.Actor, f.Cause, f.Until = verdict.PreemptionUnderWay, Itself, podRef(victim), &until
		f.WaitsFor = fmt.Sprintf("pod %s to end, which the scheduler has preempted for it on node %s",
			victim.Name, pod.Status.NominatedNodeName)
		f.Evidence = []Evidence{
			{podRef(pod), "status.nominatedNodeName", pod.Status.NominatedNodeName, ""},
			{podRef(victim), "metadata.deletionTimestamp", victim.DeletionTimestamp.UTC().String(), "the pod is gone"},
		}
		return &f
	}
	return nil
}
