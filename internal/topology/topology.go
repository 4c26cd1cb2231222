package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// OfNode returns the topology segments of a node for a driver: the topology keys that the driver
// registered there, with the values of the node's labels (T-22, T-23). It returns nil for a driver
// that is registered without keys. The error says which object lacks what.
func OfNode(node *corev1.Node, csiNode *storagev1.CSINode, driver string) (map[string]string, error) {
	keys, err := registeredKeys(csiNode, driver)
	if err != nil || len(keys) == 0 {
		return nil, err
	}
	if node == nil {
		return nil, fmt.Errorf("the Node does not exist")
	}
	segments := make(map[string]string, len(keys))
	for _, key := range keys {
		value, ok := node.Labels[key]
		if !ok {
			return nil, fmt.Errorf(
				"the Node has no label %q, which driver %q registered as a topology key", key, driver,
			)
		}
		segments[key] = value
	}
	return segments, nil
}

func registeredKeys(csiNode *storagev1.CSINode, driver string) ([]string, error) {
	if csiNode == nil {
		return nil, fmt.Errorf("its CSINode does not exist")
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == driver {
			return d.TopologyKeys, nil
		}
	}
	return nil, fmt.Errorf("driver %q is not registered in its CSINode", driver)
}

// Affinity returns the node affinity of a volume with the given accessible topologies: one term per
// topology, its expressions in the order of the keys. Topologies without segments are skipped.
// Without terms it returns nil, since the API server rejects an affinity without terms (P-12, H-3).
func Affinity(places []*csi.Topology) *corev1.VolumeNodeAffinity {
	var terms []corev1.NodeSelectorTerm
	for _, place := range places {
		if expressions := expressions(place.GetSegments()); len(expressions) > 0 {
			terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: expressions})
		}
	}
	if len(terms) == 0 {
		return nil
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: terms}}
}

func expressions(segments map[string]string) []corev1.NodeSelectorRequirement {
	var out []corev1.NodeSelectorRequirement
	for _, key := range slices.SortedFunc(maps.Keys(segments), cmp.Compare[string]) {
		out = append(out, corev1.NodeSelectorRequirement{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{segments[key]},
		})
	}
	return out
}
