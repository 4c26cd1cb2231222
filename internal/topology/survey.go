package topology

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
)

// Survey returns the nodes on which a driver is registered, as aggregation needs them. Nodes with
// the same keys and labels are merged, so that a request in a large cluster depends on its zones
// and not on its nodes (T-30). labels returns the labels of a Node; nil if it does not exist.
func Survey(csiNodes []storagev1.CSINode, labels func(node string) map[string]string, driver string) []Node {
	var nodes []Node
	seen := map[string]bool{}
	for i := range csiNodes {
		keys, err := registeredKeys(&csiNodes[i], driver)
		if err != nil {
			continue // the driver is not there
		}
		node := Node{Keys: slices.Compact(slices.Sorted(slices.Values(keys))), Labels: map[string]string{}}
		has := labels(csiNodes[i].Name)
		for _, key := range node.Keys {
			if value, ok := has[key]; ok {
				node.Labels[key] = value
			}
		}
		if id := fmt.Sprintf("%q %q", node.Keys, newTerm(node.Labels)); !seen[id] {
			seen[id] = true
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// HasKeys reports whether the driver registered a topology key on one of the nodes.
func HasKeys(nodes []Node) bool {
	return slices.ContainsFunc(nodes, func(n Node) bool { return len(n.Keys) > 0 })
}

// SameKeys reports whether the driver is registered with the same keys in both, or in neither.
func SameKeys(was, is *storagev1.CSINode, driver string) bool {
	before, errBefore := registeredKeys(was, driver)
	after, errAfter := registeredKeys(is, driver)
	return (errBefore == nil) == (errAfter == nil) && slices.Equal(before, after)
}
