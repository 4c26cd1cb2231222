package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// schedulerWords returns the scheduler's message about a pod that it could not place.
func schedulerWords(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// podUnscheduled is about a claim whose pods have no node.
func (c *Cluster) podUnscheduled(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	var findings []Finding
	for _, pod := range c.index.users[keyOf(claim)] {
		if isFinished(pod) || pod.Spec.NodeName != "" {
			continue
		}
		for _, found := range c.podScheduling(pod) {
			found.Object = claimRef(claim)
			found.Evidence = append(
				[]Evidence{{podRef(pod), "spec.nodeName", "absent", "a node; the claim's class waits for it"}},
				found.Evidence...)
			findings = append(findings, found)
		}
		if len(findings) > 0 {
			break
		}
	}
	if len(findings) == 0 {
		f.WaitsFor, f.Actor = "the scheduler to pick a node for a pod that uses the claim", Itself
		findings = append(findings, f)
	}
	return findings
}

// podScheduling explains a pod without a node, as far as its volumes are the cause.
func (c *Cluster) podScheduling(pod *corev1.Pod) []Finding {
	if findings := c.podClaims(pod); len(findings) > 0 {
		return findings
	}
	base := Finding{Object: podRef(pod), Cause: podRef(pod), Since: &pod.CreationTimestamp.Time}
	var findings []Finding
	findings = append(findings, c.unreachableVolumes(pod, base)...)
	findings = append(findings, c.usedOnce(pod, base)...)
	findings = append(findings, c.noCapacity(pod, base)...)
	findings = append(findings, c.fullNodes(pod, base)...)
	words := schedulerWords(pod)
	switch {
	case len(findings) > 0:
		if words != "" {
			findings[0].Evidence = append(findings[0].Evidence, schedulerEvidence(pod, words))
		}
	case words == "" && c.Now.Sub(pod.CreationTimestamp.Time) < patience:
		until := pod.CreationTimestamp.Add(patience)
		base.Reason, base.Actor, base.Until, base.WaitsFor = verdict.WaitForPodScheduled, Itself, &until, "the scheduler, which has not looked at the pod yet"
		findings = append(findings, base)
	case words == "":
		base.Reason, base.Actor, base.WaitsFor = verdict.SchedulerSilent, Administrator, fmt.Sprintf(
			"scheduler %q, which has said nothing about the pod",
			schedulerOf(pod),
		)
		base.Evidence = append(
			[]Evidence{{podRef(pod), "spec.schedulerName", schedulerOf(pod), "a scheduler that runs"}},
			c.leaseEvidence(scheduler)...)
		if len(pod.Spec.SchedulingGates) > 0 {
			base.WaitsFor, base.Actor = "its scheduling gates to be taken off: "+pod.Spec.SchedulingGates[0].Name, User
			base.Evidence = []Evidence{{podRef(pod), "spec.schedulingGates", pod.Spec.SchedulingGates[0].Name, "absent"}}
		}
		base.Fix = []Step{{Text: "See whether that scheduler runs", Command: "kubectl -n kube-system get pods,lease"}}
		findings = append(findings, base)
	default:
		base.Reason, base.Actor = verdict.PodUnschedulable, User
		base.WaitsFor = "a node that the scheduler accepts; its volumes are not the cause as far as the objects tell"
		base.Evidence = []Evidence{schedulerEvidence(pod, words)}
		base.Fix = []Step{
			{
				Text:    "Read the scheduler's message: it names taints, resources or affinity of the pod",
				Command: fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
			},
		}
		findings = append(findings, base)
	}
	return findings
}

func schedulerEvidence(pod *corev1.Pod, words string) Evidence {
	return Evidence{podRef(pod), "status.conditions[PodScheduled].message", words, ""}
}

func schedulerOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulerName == "" {
		return corev1.DefaultSchedulerName
	}
	return pod.Spec.SchedulerName
}

// unreachableVolumes finds volumes whose node affinity no node meets, or none that the pod may use:
// two volumes in two zones.
func (c *Cluster) unreachableVolumes(pod *corev1.Pod, f Finding) []Finding {
	if c.lacks(Node) || len(c.Nodes) == 0 {
		return nil
	}
	candidates := slices.DeleteFunc(slices.Clone(c.Nodes), func(n *corev1.Node) bool { return !podAllows(pod, n) })
	var bound []*corev1.PersistentVolume
	for _, volume := range podVolumes(pod) {
		if claim := c.index.claims[volume.claim]; claim != nil {
			if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil && pv.Spec.NodeAffinity != nil &&
				pv.Spec.NodeAffinity.Required != nil {
				bound = append(bound, pv)
			}
		}
	}
	f.Reason, f.Actor = verdict.VolumeUnreachable, Administrator
	for _, pv := range bound {
		f := f
		f.Cause = volumeRef(pv)
		f.Evidence = []Evidence{
			{volumeRef(pv), "spec.nodeAffinity", affinityText(pv.Spec.NodeAffinity.Required), "the labels of a node"},
		}
		switch {
		case !anyNode(c.Nodes, pv):
			f.WaitsFor = fmt.Sprintf(
				"a node that volume %s is reachable from: none has the labels that its node affinity asks for",
				pv.Name,
			)
			f.Fix = []Step{
				{
					Text:    "Bring back a node of that zone or that name. For a local volume the data is on that node only",
					Command: "kubectl get nodes --show-labels",
				},
			}
		case !anyNode(candidates, pv):
			f.WaitsFor = fmt.Sprintf(
				"a node that volume %s is reachable from and that the pod's node selector and affinity allow",
				pv.Name,
			)
			f.Evidence = append(
				f.Evidence,
				Evidence{podRef(pod), "spec.nodeSelector, spec.affinity", podSelection(pod), "to allow a node of the volume"},
			)
			f.Fix = []Step{
				{Text: "Loosen the pod's node selector or affinity, or move the data to a volume where the pod may run"},
			}
		default:
			continue
		}
		return []Finding{f}
	}
	return c.apart(bound, candidates, f)
}

// apart finds two volumes that no candidate reaches both.
func (c *Cluster) apart(bound []*corev1.PersistentVolume, candidates []*corev1.Node, f Finding) []Finding {
	for _, pv := range bound[min(len(bound), 1):] {
		if slices.ContainsFunc(candidates, func(n *corev1.Node) bool { return reaches(n, bound[0]) && reaches(n, pv) }) {
			continue
		}
		f.Cause = volumeRef(pv)
		f.WaitsFor = fmt.Sprintf(
			"a node that reaches both volume %s and volume %s; they are in different places",
			bound[0].Name,
			pv.Name,
		)
		f.Evidence = []Evidence{
			{
				volumeRef(bound[0]),
				"spec.nodeAffinity",
				affinityText(bound[0].Spec.NodeAffinity.Required),
				affinityText(pv.Spec.NodeAffinity.Required),
			},
			{
				volumeRef(pv),
				"spec.nodeAffinity",
				affinityText(pv.Spec.NodeAffinity.Required),
				affinityText(bound[0].Spec.NodeAffinity.Required),
			},
		}
		f.Fix = []Step{
			{
				Text: "Create one of the claims again with a class that waits for the pod (volumeBindingMode: WaitForFirstConsumer), so that both land in one place",
				Risk: "the data of the claim that is created again has to be copied first",
			},
		}
		return []Finding{f}
	}
	return nil
}

func anyNode(nodes []*corev1.Node, pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return reaches(n, pv) })
}

func reaches(node *corev1.Node, pv *corev1.PersistentVolume) bool {
	return pv.Spec.NodeAffinity == nil || objects.MatchesNode(pv.Spec.NodeAffinity.Required, node.Name, node.Labels)
}

// podAllows applies the pod's node selector and required node affinity; taints and resources are
// the scheduler's to explain.
func podAllows(pod *corev1.Pod, node *corev1.Node) bool {
	if !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(node.Labels)) {
		return false
	}
	affinity := pod.Spec.Affinity
	return affinity == nil || affinity.NodeAffinity == nil ||
		objects.MatchesNode(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution, node.Name, node.Labels)
}

func podSelection(pod *corev1.Pod) string {
	text := labels.SelectorFromSet(pod.Spec.NodeSelector).String()
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil &&
		a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		text = strings.TrimSpace(text + " " + affinityText(a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution))
	}
	return quoted(text)
}

func affinityText(selector *corev1.NodeSelector) string {
	var terms []string
	for _, term := range selector.NodeSelectorTerms {
		var parts []string
		for _, r := range append(slices.Clone(term.MatchExpressions), term.MatchFields...) {
			parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Key, r.Operator, strings.Join(r.Values, ","))))
		}
		terms = append(terms, strings.Join(parts, " and "))
	}
	return strings.Join(terms, ", or ")
}

// usedOnce finds claims with ReadWriteOncePod that another pod has.
func (c *Cluster) usedOnce(pod *corev1.Pod, f Finding) []Finding {
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil || !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		for _, other := range c.index.users[volume.claim] {
			if other.UID == pod.UID && other.Name == pod.Name || other.Spec.NodeName == "" || isFinished(other) {
				continue
			}
			f.Reason, f.Actor, f.Cause = verdict.ClaimUsedByOtherPod, User, podRef(other)
			f.WaitsFor = fmt.Sprintf("pod %s to end: claim %s may be used by one pod only", other.Name, claim.Name)
			f.Evidence = []Evidence{
				{claimRef(claim), "spec.accessModes", "ReadWriteOncePod", ""},
				{podRef(other), "spec.volumes", claim.Name, "not used by another pod"},
			}
			f.Fix = []Step{
				{
					Text:    "Stop the other pod. A Deployment with such a claim needs strategy Recreate",
					Command: fmt.Sprintf("kubectl -n %s delete pod %s", other.Namespace, other.Name),
					Risk:    "the pod is stopped",
				},
			}
			return []Finding{f}
		}
	}
	return nil
}
