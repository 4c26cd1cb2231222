package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// capacityShort compares the claims that are provisioned for the pod with the capacity that the
// driver publishes for the node (plugin VolumeBinding, KEP-1472). node may be nil: any.
func (c *Cluster) capacityShort(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for _, claim := range c.toProvision(pod, node) {
		class := c.index.classes[objects.ClaimClass(claim)]
		driver := c.driverOf(class.Provisioner)
		wants, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		if c.lacks(Capacity) || driver == nil || !deref(driver.Spec.StorageCapacity) || !sized {
			continue
		}
		short := refusal{on: Ref{Kind: Class, Name: class.Name}, claim: claim}
		fits := false
		for _, capacity := range c.Capacities {
			if capacity.StorageClassName != class.Name || node != nil && !isOfNode(capacity, node) {
				continue
			}
			fits = fits || hasRoom(capacity, wants)
			short.evidence = append(short.evidence, capacityEvidence(capacity, "at least "+wants.String()))
		}
		if !fits {
			return short, true
		}
	}
	return refusal{}, false
}

func hasRoom(capacity *storagev1.CSIStorageCapacity, wants resource.Quantity) bool {
	limit := largestVolume(capacity)
	return limit != nil && size.Compare(*limit, wants) >= 0
}

func capacityEvidence(capacity *storagev1.CSIStorageCapacity, wanted string) Evidence {
	return Evidence{
		Ref{Capacity, capacity.Namespace, capacity.Name},
		"capacity, maximumVolumeSize of " + segmentText(capacity),
		sizeText(largestVolume(capacity)), wanted,
	}
}

// noCapacity explains a class without room on the nodes that the pod may use.
func (c *Cluster) noCapacity(pod *corev1.Pod, by refusedBy, f Finding) Finding {
	claim := by.refusals[0].claim
	class := c.index.classes[objects.ClaimClass(claim)]
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	f.Reason, f.Actor, f.Cause = verdict.CapacityMissing, Administrator, by.refusals[0].on
	f.Evidence = []Evidence{{claimRef(claim), "spec.resources.requests.storage", wants.String(), ""}}
	published := slices.DeleteFunc(slices.Clone(c.Capacities), func(capacity *storagev1.CSIStorageCapacity) bool {
		return capacity.StorageClassName != class.Name
	})
	elsewhere := slices.DeleteFunc(
		slices.Clone(published), func(o *storagev1.CSIStorageCapacity) bool { return !hasRoom(o, wants) },
	)
	f.Evidence = append(f.Evidence, by.someEvidence()...)
	switch {
	case len(published) == 0:
		return unpublished(class, f)
	case len(elsewhere) > 0:
		f.WaitsFor = fmt.Sprintf("%s of room for class %q where the pod may run: what driver %q publishes has it "+
			"elsewhere only",
			wants.String(), class.Name, class.Provisioner)
		for _, capacity := range elsewhere[:min(len(elsewhere), mostNear)] {
			f.Evidence = append(f.Evidence, capacityEvidence(capacity, "the same where the pod may run"))
		}
		f.Evidence = append(f.Evidence,
			Evidence{podRef(pod), "spec.nodeSelector, spec.affinity", podSelection(pod), "to allow a node with room"})
		f.Fix = []Step{
			{
				Text: "Loosen the pod's node selector, affinity or tolerations, if it may run where the room is",
			},
			{
				Text: "Or free or add storage where it may run, or ask for less; the scheduler tries again when the " +
					"published capacity changes", Command: "kubectl get csistoragecapacities -A",
			},
		}
	default:
		f.WaitsFor = fmt.Sprintf("%s of room for class %q: what driver %q publishes has it nowhere",
			wants.String(), class.Name, class.Provisioner)
		f.Fix = []Step{{
			Text: "Free or add storage, or ask for less; the scheduler tries again when the published capacity " +
				"changes",
			Command: "kubectl get csistoragecapacities -A",
		}}
	}
	return f
}

// unpublished is about a driver whose CSIDriver promises capacities that do not exist.
func unpublished(class *storagev1.StorageClass, f Finding) Finding {
	f.WaitsFor = fmt.Sprintf(
		"driver %q to publish its capacity for class %q: its CSIDriver says that it does, and there is no "+
			"CSIStorageCapacity object",
		class.Provisioner, class.Name)
	f.Evidence = append(f.Evidence, Evidence{
		Ref{Kind: CSIDriver, Name: class.Provisioner},
		"spec.storageCapacity", "true",
		"with CSIStorageCapacity objects of the class, or false",
	})
	f.Fix = []Step{{
		Text:    "Does the provisioner run with --enable-capacity, and may it write CSIStorageCapacity objects?",
		Command: "kubectl get csistoragecapacities -A",
	}}
	return f
}

// exhausted is about a driver that publishes no capacity and answers ResourceExhausted: the
// provisioner gives the node back, and the scheduler, which knows of no capacity, may pick it
// again.
func (c *Cluster) exhausted(pod *corev1.Pod, f Finding) *Finding {
	for _, claim := range c.toProvision(pod, nil) {
		class := c.index.classes[objects.ClaimClass(claim)]
		event, driver := c.lastEvent(claimRef(claim), "ProvisioningFailed"), c.driverOf(class.Provisioner)
		if event == nil || driver == nil || deref(driver.Spec.StorageCapacity) {
			continue
		}
		if code, _ := rpcCode(event.Message); code != "ResourceExhausted" {
			continue
		}
		f = c.driverAnswer(claim, class, f, event)
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: CSIDriver, Name: driver.Name},
			"spec.storageCapacity", "false",
			"true, with a provisioner that has --enable-capacity: the scheduler then leaves out nodes without room",
		})
		return &f
	}
	return nil
}

// isOfNode reports whether the capacity is that of the node. One without a topology is of no node,
// as for the scheduler.
func isOfNode(capacity *storagev1.CSIStorageCapacity, node *corev1.Node) bool {
	topology := capacity.NodeTopology
	if topology == nil {
		return false
	}
	for label, value := range topology.MatchLabels { // most have no more than these
		if has, labelled := node.Labels[label]; !labelled || has != value {
			return false
		}
	}
	if len(topology.MatchExpressions) == 0 {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(topology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}

// largestVolume returns the size of the largest volume that the segment has room for; nil if the
// driver does not say.
func largestVolume(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

func sizeText(limit *resource.Quantity) string {
	if limit == nil {
		return "absent"
	}
	return limit.String()
}

func segmentText(capacity *storagev1.CSIStorageCapacity) string {
	switch {
	case capacity.NodeTopology == nil:
		return "no node"
	case len(capacity.NodeTopology.MatchLabels)+len(capacity.NodeTopology.MatchExpressions) == 0:
		return "every node"
	}
	return metav1.FormatLabelSelector(capacity.NodeTopology)
}
