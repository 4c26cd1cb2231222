package explain

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The rule of the plugin PodTopologySpread: a node is excluded if one more pod in its domain makes
// the difference to the domain with the fewest pods larger than maxSkew.

// spread are the pods of one constraint, by the domain that they are in.
type spread struct {
	corev1.TopologySpreadConstraint

	pods   map[string]int // by the value of the topology key
	itself int            // 1 if the constraint counts the pod
	fewest int
	least  string // a domain with the fewest pods
}

// hardConstraints are those that exclude nodes.
func hardConstraints(pod *corev1.Pod) (all []corev1.TopologySpreadConstraint) {
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable == corev1.DoNotSchedule {
			all = append(all, constraint)
		}
	}
	return all
}

// countsNode reports whether the domain of a node counts for a constraint.
func (c *Cluster) countsNode(pod *corev1.Pod, node *corev1.Node, of corev1.TopologySpreadConstraint) bool {
	if derefOr(of.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		if _, refused := c.notSelected(pod, node); refused {
			return false
		}
	}
	if derefOr(of.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor {
		return untolerated(pod, node, func(corev1.Taint) bool { return true }) == nil
	}
	return true
}

// countOn counts the pods of a node that a selector selects. Pods that are ending do not count.
func (c *Cluster) countOn(node *corev1.Node, namespace string, selector labels.Selector) (count int) {
	for _, pod := range c.index.podsOn[node.Name] {
		if pod.Namespace == namespace && pod.DeletionTimestamp == nil && !isFinished(pod) &&
			selector.Matches(labels.Set(pod.Labels)) {
			count++
		}
	}
	return count
}

// spreadOf counts the pods of a constraint. Only nodes with the keys of all constraints count.
func (c *Cluster) spreadOf(pod *corev1.Pod, of corev1.TopologySpreadConstraint) spread {
	s := spread{TopologySpreadConstraint: of, pods: map[string]int{}}
	selector, err := metav1.LabelSelectorAsSelector(of.LabelSelector)
	if err != nil {
		selector = labels.Nothing()
	}
	selector = withKeys(selector, pod, of.MatchLabelKeys)
	if selector.Matches(labels.Set(pod.Labels)) {
		s.itself = 1
	}
	all := hardConstraints(pod)
	for _, node := range c.Nodes {
		lacksKey := slices.ContainsFunc(all, func(other corev1.TopologySpreadConstraint) bool {
			_, has := node.Labels[other.TopologyKey]
			return !has
		})
		if !lacksKey && c.countsNode(pod, node, of) {
			s.pods[node.Labels[of.TopologyKey]] += c.countOn(node, pod.Namespace, selector)
		}
	}
	return s.withFewest()
}

// withFewest fills in the domain with the fewest pods. Of several it takes the first by name; with
// fewer domains than minDomains, the fewest are none.
func (s spread) withFewest() spread {
	for i, domain := range slices.Sorted(maps.Keys(s.pods)) {
		if i == 0 || s.pods[domain] < s.fewest {
			s.fewest, s.least = s.pods[domain], domain
		}
	}
	if len(s.pods) < int(derefOr(s.MinDomains, 1)) {
		s.fewest, s.least = 0, ""
	}
	return s
}

// spreadViolated applies the constraints to a node.
func (c *Cluster) spreadViolated(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if len(hardConstraints(pod)) == 0 {
		return refusal{}, false
	}
	for _, s := range c.neighboursOf(pod).spreads {
		value, has := node.Labels[s.TopologyKey]
		if !has {
			return lacksLabel(pod, node, s.TopologyKey), true
		}
		if s.pods[value]+s.itself-s.fewest <= int(s.MaxSkew) {
			continue
		}
		return refusal{
			on: podRef(pod),
			what: fmt.Sprintf("one pod more in %s %s than maxSkew (%d) allows",
				s.TopologyKey, quoted(value), s.MaxSkew),
			evidence: []Evidence{{
				podRef(pod), "spec.topologySpreadConstraints[" + s.TopologyKey + "]",
				fmt.Sprintf("with labels %s: %d in %s, and %s", metav1.FormatLabelSelector(s.LabelSelector),
					s.pods[value], quoted(value), s.fewestText()),
				fmt.Sprintf("at most %d more than in the domain with the fewest", s.MaxSkew),
			}},
		}, true
	}
	return refusal{}, false
}

func (s spread) fewestText() string {
	if s.least == "" {
		return fmt.Sprintf("fewer domains than minDomains (%d)", derefOr(s.MinDomains, 1))
	}
	return fmt.Sprintf("%d in %s", s.fewest, quoted(s.least))
}
