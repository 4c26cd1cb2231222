package topology

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Includes reports whether a volume with this node affinity can be reached from the node with the
// name and the labels (D-13). A volume without affinity can be reached from everywhere.
func Includes(affinity *corev1.VolumeNodeAffinity, node string, segments map[string]string) bool {
	if affinity == nil || affinity.Required == nil {
		return true
	}
	return slices.ContainsFunc(affinity.Required.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		if len(t.MatchExpressions)+len(t.MatchFields) == 0 { // matches no node
			return false
		}
		return matches(t.MatchExpressions, segments) && matches(t.MatchFields, map[string]string{"metadata.name": node})
	})
}

func matches(requirements []corev1.NodeSelectorRequirement, of map[string]string) bool {
	return !slices.ContainsFunc(requirements, func(r corev1.NodeSelectorRequirement) bool {
		one, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
		return err != nil || !one.Matches(labels.Set(of))
	})
}

var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn:           selection.In,
	corev1.NodeSelectorOpNotIn:        selection.NotIn,
	corev1.NodeSelectorOpExists:       selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	corev1.NodeSelectorOpGt:           selection.GreaterThan,
	corev1.NodeSelectorOpLt:           selection.LessThan,
}
