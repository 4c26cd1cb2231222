package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// boundVolumes are the PersistentVolumes of the pod's claims.
func (c *Cluster) boundVolumes(pod *corev1.Pod) (bound []*corev1.PersistentVolume) {
	for _, volume := range podVolumes(pod) {
		if claim := c.index.claims[volume.claim]; claim != nil {
			if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil {
				bound = append(bound, pv)
			}
		}
	}
	return bound
}

// volumeAffinity applies spec.nodeAffinity of the pod's volumes (plugin VolumeBinding, KEP-490).
func (c *Cluster) volumeAffinity(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for _, pv := range c.boundVolumes(pod) {
		if !reaches(node, pv) {
			return refusal{on: volumeRef(pv)}, true
		}
	}
	return refusal{}, false
}

func reaches(node *corev1.Node, pv *corev1.PersistentVolume) bool {
	return pv.Spec.NodeAffinity == nil || objects.MatchesNode(pv.Spec.NodeAffinity.Required, node.Name, node.Labels)
}

// zoneLabels are those of volumes that the scheduler compares with the labels of nodes, each with
// its present name.
var zoneLabels = map[string]string{
	corev1.LabelTopologyZone:            corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelTopologyRegion:          corev1.LabelTopologyRegion,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
}

// volumeZone compares the zone and region labels of the pod's volumes with those of the node
// (plugin VolumeZone).
func (c *Cluster) volumeZone(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for _, pv := range c.boundVolumes(pod) {
		if otherZone(node, pv) != "" {
			return refusal{on: volumeRef(pv)}, true
		}
	}
	return refusal{}, false
}

// otherZone returns a label of the volume with a zone or region that the node is not in. A node
// without any such label takes all volumes.
func otherZone(node *corev1.Node, pv *corev1.PersistentVolume) string {
	zoned := false
	for label := range node.Labels {
		zoned = zoned || zoneLabels[label] != ""
	}
	if !zoned {
		return ""
	}
	for label, present := range zoneLabels {
		value, labelled := pv.Labels[label]
		has, known := node.Labels[label]
		if !known {
			has = node.Labels[present]
		}
		if labelled && !slices.Contains(strings.Split(value, "__"), has) {
			return label
		}
	}
	return ""
}

// reachesAll applies both rules of place.
func reachesAll(node *corev1.Node, volumes ...*corev1.PersistentVolume) bool {
	return !slices.ContainsFunc(volumes, func(pv *corev1.PersistentVolume) bool {
		return !reaches(node, pv) || otherZone(node, pv) != ""
	})
}

// unreachable explains volumes that no node reaches, or that no node reaches together.
func (c *Cluster) unreachable(pod *corev1.Pod, by refusedBy, f Finding) Finding {
	f.Reason, f.Actor, f.Cause = verdict.VolumeUnreachable, Administrator, by.refusals[0].on
	anyReaches := func(volumes ...*corev1.PersistentVolume) bool {
		return slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return reachesAll(n, volumes...) })
	}
	bound := c.boundVolumes(pod)
	for i, pv := range bound {
		if !anyReaches(pv) {
			return c.placeLost(pv, f)
		}
		for _, other := range bound[:i] {
			if !anyReaches(other, pv) {
				f.Cause = volumeRef(pv)
				f.WaitsFor = fmt.Sprintf("a node that reaches both volume %s and volume %s; they are in different "+
					"places",
					other.Name, pv.Name)
				f.Evidence = []Evidence{placeEvidence(other, placeText(pv)), placeEvidence(pv, placeText(other))}
				f.Fix = apartFix
				return f
			}
		}
	}
	f.WaitsFor = "a node that reaches all volumes of the pod: none does"
	for _, pv := range bound[:min(len(bound), mostNear)] {
		f.Evidence = append(f.Evidence, placeEvidence(pv, ""))
	}
	f.Fix = apartFix
	return f
}

var apartFix = []Step{{
	Text: "Create one of the claims again with a class that waits for the pod (volumeBindingMode: " +
		"WaitForFirstConsumer), so that both land in one place",
	Risk: "the data of the claim that is created again has to be copied first",
}}

func placeText(pv *corev1.PersistentVolume) string {
	if pv.Spec.NodeAffinity != nil && pv.Spec.NodeAffinity.Required != nil {
		return affinityText(pv.Spec.NodeAffinity.Required)
	}
	var zones []string
	for label := range zoneLabels {
		if value := pv.Labels[label]; value != "" {
			zones = append(zones, label+"="+value)
		}
	}
	slices.Sort(zones)
	return strings.Join(zones, ",")
}

func placeEvidence(pv *corev1.PersistentVolume, wanted string) Evidence {
	field := "spec.nodeAffinity"
	if pv.Spec.NodeAffinity == nil {
		field = "metadata.labels"
	}
	return Evidence{volumeRef(pv), field, placeText(pv), wanted}
}

// placeLost is about a volume that no node reaches: the node is gone, or its label is.
func (c *Cluster) placeLost(pv *corev1.PersistentVolume, f Finding) Finding {
	f.Cause = volumeRef(pv)
	f.WaitsFor = fmt.Sprintf("a node that volume %s is reachable from: none has the labels that its node affinity "+
		"asks for",
		pv.Name)
	f.Evidence = []Evidence{placeEvidence(pv, "the labels of a node")}
	f.Fix = []Step{{
		Text:    "Bring back a node of that zone or that name. For a local volume the data is on that node only",
		Command: "kubectl get nodes --show-labels",
	}}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		f.WaitsFor = fmt.Sprintf("a node in the zone and region of the labels of volume %s: there is none", pv.Name)
		return f
	}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			evidence, fix := c.labelLost(pv, r)
			f.Evidence, f.Fix = append(f.Evidence, evidence...), append(fix, f.Fix...)
		}
	}
	return f
}

// labelLost says what has become of a label that the volume's node affinity asks for; nothing if a
// node has it.
func (c *Cluster) labelLost(
	pv *corev1.PersistentVolume, r corev1.NodeSelectorRequirement,
) (all []Evidence, fix []Step) {
	var values []string
	for _, node := range c.Nodes {
		if objects.MatchesNode(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{r}},
		}}, node.Name, node.Labels) {
			return nil, nil
		}
		if value, labelled := node.Labels[r.Key]; labelled && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	for _, name := range r.Values {
		node := c.index.nodes[name]
		switch {
		case r.Key == corev1.LabelHostname && node != nil:
			ref := Ref{Kind: Node, Name: name}
			all = append(all, Evidence{ref, "metadata.labels[" + r.Key + "]", quoted(node.Labels[r.Key]), name})
			fix = append(fix, Step{
				Text:    "The node exists and its label differs. Set the label back",
				Command: shell.Command("kubectl label node %s --overwrite kubernetes.io/hostname=%s", name, name),
				Risk:    "pods that select the node by the present value of the label no longer find it",
			})
		case r.Key == corev1.LabelHostname:
			all = append(all, Evidence{Ref{Kind: Node, Name: name}, "metadata.name", "there is no such node", name})
		}
	}
	if len(values) > 0 {
		values = values[:min(len(values), mostNear)]
		return append(all, Evidence{
			volumeRef(pv), "label " + r.Key + " of the nodes", strings.Join(values, ", "), strings.Join(r.Values, ", "),
		}), fix
	}
	all = append(all, Evidence{
		volumeRef(pv), "label " + r.Key + " of the nodes", "on no node", strings.Join(r.Values, ", "),
	})
	if pv.Spec.CSI != nil && !c.lacks(CSINode) {
		all = append(all, c.topologyKeyEvidence(pv.Spec.CSI.Driver, r.Key)...)
		fix = append(fix, Step{Text: fmt.Sprintf("The label comes from driver %s when it registers on a node: "+
			"see whether its node pods run, and restart them", pv.Spec.CSI.Driver), Command: "kubectl get csinode -o " +
			"yaml"})
	}
	return all, fix
}

// topologyKeyEvidence names a node on which the driver is registered without the key, or with it while the
// node lacks the label; the driver if it is registered on no node.
func (c *Cluster) topologyKeyEvidence(driver, key string) []Evidence {
	for _, csiNode := range c.CSINodes {
		ref := Ref{Kind: CSINode, Name: csiNode.Name}
		for _, d := range csiNode.Spec.Drivers {
			if d.Name == driver && slices.Contains(d.TopologyKeys, key) {
				ref.Kind = Node
				return []Evidence{{ref, "metadata.labels[" + key + "]", "absent", "set: the driver registered it"}}
			}
			if d.Name == driver {
				return []Evidence{{
					ref, "spec.drivers[" + driver + "].topologyKeys", strings.Join(d.TopologyKeys, ", "), key,
				}}
			}
		}
	}
	return []Evidence{{
		Ref{Kind: CSIDriver, Name: driver}, "registered on", "no node", "the nodes that its volumes are for",
	}}
}
