package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// The rules of the plugin InterPodAffinity. Its three filters, in the order of the scheduler: the
// affinity of the pod, its anti-affinity, and the anti-affinity of the pods that exist.

// affinityTerm is one required term of a pod, with its selectors compiled.
type affinityTerm struct {
	key        string // of the topology
	namespaces []string
	everywhere labels.Selector // of namespaces, by their labels; nil for none
	selector   labels.Selector
	text       string
}

// termsOf compiles the terms of a pod. A term that cannot be compiled selects no pod.
func termsOf(pod *corev1.Pod, terms []corev1.PodAffinityTerm) (all []affinityTerm) {
	for i := range terms {
		from := &terms[i]
		term := affinityTerm{
			key: from.TopologyKey, namespaces: from.Namespaces, selector: labels.Nothing(),
			text: metav1.FormatLabelSelector(from.LabelSelector) + " by " + from.TopologyKey,
		}
		if selector, err := metav1.LabelSelectorAsSelector(from.LabelSelector); err == nil {
			term.selector = withKeys(selector, pod, from.MatchLabelKeys)
		}
		if from.NamespaceSelector != nil {
			if selector, err := metav1.LabelSelectorAsSelector(from.NamespaceSelector); err == nil {
				term.everywhere = selector
			}
		} else if len(from.Namespaces) == 0 {
			term.namespaces = []string{pod.Namespace}
		}
		all = append(all, term)
	}
	return all
}

// withKeys adds the values of the pod's own labels with the keys to a selector.
func withKeys(selector labels.Selector, pod *corev1.Pod, keys []string) labels.Selector {
	for _, key := range keys {
		if value, has := pod.Labels[key]; has {
			requirements, _ := labels.SelectorFromSet(labels.Set{key: value}).Requirements()
			selector = selector.Add(requirements...)
		}
	}
	return selector
}

// selects reports whether a term is about a pod.
func (c *Cluster) selects(term affinityTerm, pod *corev1.Pod) bool {
	if !term.selector.Matches(labels.Set(pod.Labels)) {
		return false
	}
	if slices.Contains(term.namespaces, pod.Namespace) {
		return true
	}
	if term.everywhere == nil {
		return false
	}
	if term.everywhere.Empty() {
		return true
	}
	ns := c.index.namespaces[pod.Namespace]
	return ns != nil && term.everywhere.Matches(labels.Set(ns.Labels))
}

// inDomainOf reports whether two nodes have the same value of a topology key.
func inDomainOf(key string, a, b *corev1.Node) bool {
	if a == nil || b == nil {
		return false
	}
	value, has := a.Labels[key]
	other, also := b.Labels[key]
	return has && also && value == other
}

func requiredAffinity(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		return a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

func requiredAntiAffinity(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// placedPods are the pods that the scheduler counts on nodes.
func (c *Cluster) placedPods(accept func(*corev1.Pod) bool) (all []*corev1.Pod) {
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != "" && !isFinished(pod) && accept(pod) {
			all = append(all, pod)
		}
	}
	return all
}

// neighbours are the pods that the required terms and constraints of one pod are about.
type neighbours struct {
	pod      *corev1.Pod
	wanted   []affinityTerm
	friends  []*corev1.Pod // that all terms of the affinity select
	isFriend bool          // the terms select the pod itself
	unwanted []affinityTerm
	others   []*corev1.Pod // that a term of the anti-affinity selects
	spreads  []spread
}

// neighboursOf computes the neighbours of a pod once for all nodes.
func (c *Cluster) neighboursOf(pod *corev1.Pod) *neighbours {
	if n := c.index.near; n != nil && n.pod == pod {
		return n
	}
	n := &neighbours{
		pod: pod, wanted: termsOf(pod, requiredAffinity(pod)), unwanted: termsOf(pod, requiredAntiAffinity(pod)),
	}
	if len(n.wanted) > 0 {
		ofAll := func(other *corev1.Pod) bool {
			return !slices.ContainsFunc(n.wanted, func(t affinityTerm) bool { return !c.selects(t, other) })
		}
		n.friends, n.isFriend = c.placedPods(ofAll), ofAll(pod)
	}
	if len(n.unwanted) > 0 {
		n.others = c.placedPods(func(other *corev1.Pod) bool {
			return other != pod &&
				slices.ContainsFunc(n.unwanted, func(t affinityTerm) bool { return c.selects(t, other) })
		})
	}
	for _, of := range hardConstraints(pod) {
		n.spreads = append(n.spreads, c.spreadOf(pod, of))
	}
	c.index.near = n
	return n
}

// podAffinityUnmet is about a node in whose domain no pod is that the affinity asks for. The first
// of several pods that ask for each other may start anywhere.
func (c *Cluster) podAffinityUnmet(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if len(requiredAffinity(pod)) == 0 || c.lacks(Pod) {
		return refusal{}, false
	}
	n := c.neighboursOf(pod)
	for _, term := range n.wanted {
		if _, has := node.Labels[term.key]; !has {
			return lacksLabel(pod, node, term.key), true
		}
		isNear := func(other *corev1.Pod) bool {
			return inDomainOf(term.key, node, c.index.nodes[other.Spec.NodeName])
		}
		if slices.ContainsFunc(n.friends, isNear) || len(n.friends) == 0 && n.isFriend {
			continue
		}
		proof := Evidence{podRef(pod), "spec.affinity.podAffinity", term.text, "a pod with a node that it selects"}
		if len(n.friends) > 0 {
			friend := n.friends[0]
			proof = Evidence{
				podRef(friend), "spec.nodeName", friend.Spec.NodeName,
				"a node of the same " + term.key + " as one that the pod may use",
			}
		}
		return refusal{
			on: podRef(pod), what: "no pod with labels " + term.text, evidence: []Evidence{proof},
		}, true
	}
	return refusal{}, false
}

// lacksLabel is about a node without the label by which a rule forms domains.
func lacksLabel(pod *corev1.Pod, node *corev1.Node, key string) refusal {
	ref := Ref{Kind: Node, Name: node.Name}
	return refusal{
		on: podRef(pod), what: "no label " + key,
		evidence: []Evidence{{ref, "metadata.labels[" + key + "]", "absent", "a value"}},
	}
}

// podAntiAffinityViolated is about a node in whose domain a pod is that the pod's anti-affinity
// excludes.
func (c *Cluster) podAntiAffinityViolated(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if len(requiredAntiAffinity(pod)) == 0 {
		return refusal{}, false
	}
	n := c.neighboursOf(pod)
	for _, other := range n.others {
		for _, term := range n.unwanted {
			if c.selects(term, other) && inDomainOf(term.key, node, c.index.nodes[other.Spec.NodeName]) {
				return c.tooNear(pod, pod, other, term), true
			}
		}
	}
	return refusal{}, false
}

// tooNear is about two pods of which one excludes the other.
func (c *Cluster) tooNear(pod, owner, other *corev1.Pod, term affinityTerm) refusal {
	what, field := fmt.Sprintf("pod %s has labels %s", other.Name, term.text), "metadata.labels"
	value := labels.FormatLabels(other.Labels)
	if owner == other {
		what = fmt.Sprintf("pod %s excludes pods with labels %s", other.Name, term.text)
		field, value = "spec.affinity.podAntiAffinity", term.text
	}
	return refusal{on: podRef(other), what: what, evidence: append([]Evidence{
		{podRef(other), field, value, "no such pod with the same " + term.key},
	}, c.sameWorkload(pod, other)...)}
}

// excludedByNeighbour is about a node in whose domain a pod is that excludes this one.
// The scheduler asks for that only where the pod itself does not exclude a neighbour.
func (c *Cluster) excludedByNeighbour(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if _, excludes := c.podAntiAffinityViolated(pod, node); excludes {
		return refusal{}, false
	}
	for _, other := range c.index.antiAffine {
		if other == pod || isFinished(other) || other.Spec.NodeName == "" {
			continue
		}
		for _, term := range termsOf(other, requiredAntiAffinity(other)) {
			if c.selects(term, pod) && inDomainOf(term.key, node, c.index.nodes[other.Spec.NodeName]) {
				return c.tooNear(pod, other, other, term), true
			}
		}
	}
	return refusal{}, false
}
