package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// The rules of the scheduler that are not about volumes, as far as common cases go.

// healthTaints are those that the node controller and the kubelet put on a node that has a problem.
var healthTaints = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeMemoryPressure,
	corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure, corev1.TaintNodeNetworkUnavailable,
	"node.cloudprovider.kubernetes.io/uninitialized",
}

// untolerated returns the first taint of the node that keeps the pod away and that accept takes.
func untolerated(pod *corev1.Pod, node *corev1.Node, accept func(corev1.Taint) bool) *corev1.Taint {
	for i, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && accept(taint) && !isTolerated(pod, taint) {
			return &node.Spec.Taints[i]
		}
	}
	return nil
}

func isTolerated(pod *corev1.Pod, taint corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) })
}

func tolerates(t corev1.Toleration, taint corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == corev1.TolerationOpExists || t.Value == taint.Value
}

// nodeUnhealthy is about a node with a taint of a problem (plugin TaintToleration).
func (c *Cluster) nodeUnhealthy(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	taint := untolerated(pod, node, func(t corev1.Taint) bool { return slices.Contains(healthTaints, t.Key) })
	if taint == nil {
		return refusal{}, false
	}
	return refused(Ref{Kind: Node, Name: node.Name}, "spec.taints", taint.ToString(), "absent")
}

func refused(on Ref, field, value, wanted string) (refusal, bool) {
	return refusal{on: on, what: value, evidence: []Evidence{{on, field, value, wanted}}}, true
}

// needsHealth explains a node that the pod could use if it were well.
func (c *Cluster) needsHealth(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	name := by.nodes[0].Name
	f.Reason, f.Actor, f.Cause = verdict.NodeNotReady, Administrator, by.refusals[0].on
	f.WaitsFor = "a node that is ready: " + by.text()
	f.Evidence = append([]Evidence{c.nodeEvidence(name)}, by.someEvidence()...)
	f.Fix = c.nodeFix(name)
	return f
}

// cordoned is about a node that takes no new pods (plugin NodeUnschedulable).
func (c *Cluster) cordoned(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if !node.Spec.Unschedulable || isTolerated(pod, taint) {
		return refusal{}, false
	}
	found, is := refused(Ref{Kind: Node, Name: node.Name}, "spec.unschedulable", "true", "false")
	found.what = "cordoned"
	return found, is
}

// needsUncordon explains nodes that are closed for maintenance.
func (c *Cluster) needsUncordon(pod *corev1.Pod, by refusedBy, f Finding) Finding {
	f = c.notTheVolume(pod, by, f)
	f.Actor, f.Cause = Administrator, by.refusals[0].on
	f.Fix[0].Command = shell.Command("kubectl uncordon %s", f.Cause.Name)
	return f
}

// tainted is about taints that say for which pods a node is (plugin TaintToleration).
func (c *Cluster) tainted(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	taint := untolerated(pod, node, func(t corev1.Taint) bool {
		return !slices.Contains(healthTaints, t.Key) && (t.Key != corev1.TaintNodeUnschedulable ||
			!node.Spec.Unschedulable)
	})
	if taint == nil {
		return refusal{}, false
	}
	found, is := refused(
		Ref{Kind: Node, Name: node.Name}, "spec.taints", taint.ToString(), "a toleration of the pod for it",
	)
	found.what = "taint " + found.what
	return found, is
}

// notSelected applies the pod's node selector and required node affinity (plugin NodeAffinity).
func (c *Cluster) notSelected(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	affinity := pod.Spec.Affinity
	if labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) && (affinity == nil ||
		affinity.NodeAffinity == nil || objects.MatchesNode(
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node.Name, node.Labels)) {
		return refusal{}, false
	}
	return refusal{on: podRef(pod), what: podSelection(pod)}, true
}

// selectsOthers explains a node selector or an affinity that leaves no node, or none of the volume.
func (c *Cluster) selectsOthers(pod *corev1.Pod, by refusedBy, f Finding) Finding {
	selection := Evidence{podRef(pod), "spec.nodeSelector, spec.affinity", podSelection(pod), "to allow a node"}
	placed := slices.DeleteFunc(c.boundVolumes(pod), func(pv *corev1.PersistentVolume) bool {
		return !slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return !reachesAll(n, pv) })
	})
	if by.among == nil || len(placed) == 0 {
		f = c.notTheVolume(pod, by, f)
		f.Evidence = append(f.Evidence, selection)
		return f
	}
	selection.Wanted = "to allow a node of the volume: " + nodeNames(by.among)
	f.Reason, f.Actor, f.Cause = verdict.VolumeUnreachable, Administrator, volumeRef(placed[0])
	f.WaitsFor = fmt.Sprintf("a node that volume %s is reachable from and that the pod's node selector and affinity "+
		"allow", placed[0].Name)
	f.Evidence = []Evidence{placeEvidence(placed[0], "the labels of a node"), selection}
	f.Fix = []Step{{
		Text: "Loosen the pod's node selector or affinity, or move the data to a volume where the pod may run",
	}}
	return f
}

func podSelection(pod *corev1.Pod) string {
	text := labels.SelectorFromSet(pod.Spec.NodeSelector).String()
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		text = strings.TrimSpace(
			text + " " + affinityText(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution),
		)
	}
	return quoted(text)
}

func affinityText(selector *corev1.NodeSelector) string {
	var terms []string
	for _, term := range selector.NodeSelectorTerms {
		var parts []string
		for _, r := range append(slices.Clone(term.MatchExpressions), term.MatchFields...) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf(
				"%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","),
			)))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

// text says what excludes the nodes, with those that are excluded alike together.
func (r refusedBy) text() string {
	var order, parts []string
	alike := map[string][]*corev1.Node{}
	for i, refusal := range r.refusals {
		if alike[refusal.what] == nil {
			order = append(order, refusal.what)
		}
		alike[refusal.what] = append(alike[refusal.what], r.nodes[i])
	}
	for _, what := range order[:min(len(order), mostNear)] {
		parts = append(parts, nodeNames(alike[what])+": "+what)
	}
	return strings.Join(parts, "; ")
}

// notTheVolume explains a pod that no volume keeps from a node.
func (c *Cluster) notTheVolume(pod *corev1.Pod, by refusedBy, f Finding) Finding {
	f.Reason, f.Actor, f.Evidence = verdict.PodUnschedulable, User, by.someEvidence()
	text := fixesOfPods[by.rule.name]
	f.WaitsFor = "a node that the scheduler accepts; its volumes are not the cause"
	switch {
	case by.among != nil:
		f.WaitsFor = fmt.Sprintf(
			"a node that the scheduler accepts, of those that its volumes are reachable from (%s)", nodeNames(by.among),
		)
		text = strings.ReplaceAll(text, "add a node", "add a node that the volumes are reachable from")
	case by.notAlone:
		f.WaitsFor = "a node that the scheduler accepts; its volumes exclude other nodes only"
	}
	f.WaitsFor += fmt.Sprintf(". Excluded by %s: %s", by.rule.name, by.text())
	f.Fix = []Step{{
		Text:    text,
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	for _, e := range f.Evidence {
		if e.Object.Kind == Deployment {
			f.Fix = append([]Step{recreate(e.Object)}, f.Fix...)
		}
	}
	return f
}

// recreate has a Deployment end its old pods before it starts new ones.
func recreate(deployment Ref) Step {
	return Step{
		Text: "The Deployment waits for the new pod before it ends the old one, which is in its way: set strategy " +
			"Recreate",
		Command: shell.Command(
			`kubectl -n %s patch deployment %s -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`,
			deployment.Namespace, deployment.Name,
		),
		Risk: "the old pod is stopped before the new one runs",
	}
}

// fixesOfPods are the remedies of the rules that are not about volumes.
var fixesOfPods = map[string]string{
	"cordoned nodes": "Uncordon a node when its maintenance is over, or add a node",
	"resources":      "Lower the requests of the pod, stop other pods on these nodes, or add a node",
	"host ports": "Stop the pod that has the port, reach the program through a Service instead of a host port, or " +
		"add a node",
	"topology spread constraints": "In the workload of the pod, allow a larger maxSkew or ScheduleAnyway, or add a " +
		"node in the domain with the fewest pods",
	"pod anti-affinity": "In the workload of the pod, ask for fewer replicas, or prefer the anti-affinity instead of " +
		"requiring it, or add a node",
	"anti-affinity of other pods": "Move the other pod, or change its workload to prefer the anti-affinity, or add a " +
		"node",
	"pod affinity": "Start a pod that the affinity selects on a node that this pod may use, or correct the affinity " +
		"in the pod's workload",
	"taints": "Give the pod a toleration if it may run there, or take the taint off",
	"node selector and node affinity of the pod": "Correct the pod's node selector or affinity, or label a node",
}
