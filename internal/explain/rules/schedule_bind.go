package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// toProvision are the pod's claims that wait for it and that no existing volume on the node fits.
// node may be nil: any.
func (c *Cluster) toProvision(pod *corev1.Pod, node *corev1.Node) (claims []*corev1.PersistentVolumeClaim) {
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil || claim.Spec.VolumeName != "" {
			continue
		}
		if binding.DelaysBinding(c.index.classes[objects.ClaimClass(claim)]) && !c.hasVolumeFor(claim, node) {
			claims = append(claims, claim)
		}
	}
	return claims
}

func (c *Cluster) hasVolumeFor(claim *corev1.PersistentVolumeClaim, node *corev1.Node) bool {
	for _, pv := range c.Volumes {
		if pv.Status.Phase == corev1.VolumeAvailable && (node == nil ||
			reaches(node, pv)) && len(compare(pv, claim)) == 0 {
			return true
		}
	}
	return false
}

// noVolumeToBind is about claims of a class that provisions nothing: an existing volume has to fit
// on the node (plugin VolumeBinding, KEP-490).
func (c *Cluster) noVolumeToBind(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for _, claim := range c.toProvision(pod, node) {
		class := c.index.classes[objects.ClaimClass(claim)]
		if !c.lacks(Volume) && binding.Driver(class.Provisioner) == "" {
			return refusal{on: Ref{Kind: Class, Name: class.Name}, claim: claim}, true
		}
	}
	return refusal{}, false
}

// needsVolume explains a claim for which there is no volume where the pod may run.
func (c *Cluster) needsVolume(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	claim, class := by.refusals[0].claim, by.refusals[0].on
	f.Reason, f.Actor, f.Cause = verdict.NoVolumeToBind, Administrator, class
	f.WaitsFor = fmt.Sprintf("an Available PersistentVolume of class %q that fits claim %s on a node that the pod "+
		"may use: the class provisions nothing", class.Name, claim.Name)
	f.Evidence = []Evidence{
		{
			class, "provisioner", c.index.classes[class.Name].Provisioner,
			"a CSI driver, or volumes that are made by hand",
		},
		{claimRef(claim), "spec.storageClassName", class.Name, ""},
	}
	elsewhere := 0
	for _, pv := range c.Volumes {
		if pv.Status.Phase == corev1.VolumeAvailable && len(compare(pv, claim)) == 0 && elsewhere < mostNear {
			f.Evidence = append(f.Evidence, placeEvidence(pv, "a node that the pod may use"))
			elsewhere++
		}
	}
	if elsewhere == 0 {
		for _, miss := range c.nearMisses(claim) {
			f.Evidence = append(f.Evidence, miss.evidence...)
		}
	}
	f.Fix = []Step{{
		Text: "Create a PersistentVolume of this class that fits, on a node that the pod may use, or prepare a disk " +
			"for the local-volume provisioner there", Command: "kubectl get pv",
	}}
	return f
}

// topologyNotAllowed applies allowedTopologies of the classes of claims that are provisioned for
// the pod (plugin VolumeBinding, KEP-557).
func (c *Cluster) topologyNotAllowed(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for _, claim := range c.toProvision(pod, node) {
		if class := c.index.classes[objects.ClaimClass(claim)]; !classAllows(class, node) {
			return refusal{on: Ref{Kind: Class, Name: class.Name}, claim: claim}, true
		}
	}
	return refusal{}, false
}

// classAllows applies the allowedTopologies of the class: one of the terms must hold.
func classAllows(class *storagev1.StorageClass, node *corev1.Node) bool {
	for _, term := range class.AllowedTopologies {
		if termHolds(term, node) {
			return true
		}
	}
	return len(class.AllowedTopologies) == 0
}

func termHolds(term corev1.TopologySelectorTerm, node *corev1.Node) bool {
	for _, r := range term.MatchLabelExpressions {
		if !hasOneOf(node, r) {
			return false
		}
	}
	return true
}

func hasOneOf(node *corev1.Node, r corev1.TopologySelectorLabelRequirement) bool {
	value, labelled := node.Labels[r.Key]
	return labelled && slices.Contains(r.Values, value)
}

// needsTopology explains a class whose allowedTopologies exclude the nodes: by a label that no node
// has, or by its values.
func (c *Cluster) needsTopology(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	f.Reason, f.Actor, f.Cause = verdict.ClassTopologyUnmet, Administrator, by.refusals[0].on
	class := c.index.classes[f.Cause.Name]
	f.WaitsFor = fmt.Sprintf("a node that allowedTopologies of class %q allow", class.Name)
	for _, term := range class.AllowedTopologies {
		for _, r := range term.MatchLabelExpressions {
			values := map[string]bool{}
			for _, node := range c.Nodes {
				if value, labelled := node.Labels[r.Key]; labelled {
					values[value] = true
				}
			}
			wanted := "values of nodes, which are: " + strings.Join(slices.Sorted(maps.Keys(values)), ", ")
			if len(values) == 0 {
				wanted = "a label that nodes have"
				f.WaitsFor = fmt.Sprintf("a node with the label %s, which allowedTopologies of class %q ask for: no "+
					"node has it",
					r.Key, class.Name)
			}
			f.Evidence = append(f.Evidence, Evidence{
				f.Cause, "allowedTopologies[" + r.Key + "]", strings.Join(r.Values, ", "), wanted,
			})
			if len(values) == 0 {
				f.Evidence = append(f.Evidence, c.topologyKeyEvidence(class.Provisioner, r.Key)...)
			}
		}
	}
	f.Fix = []Step{{
		Text: "Delete the class and create it again with labels and values that nodes have (the field cannot be " +
			"changed)",
		Risk: "none for data: volumes and claims stay as they are; claims that wait for the class go on when it is " +
			"back",
	}, {Text: "Or label the nodes that the class is meant for", Command: "kubectl get nodes --show-labels"}}
	return f
}
