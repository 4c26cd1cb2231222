package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// A pod without a node is explained by the filters of kube-scheduler, computed from the objects for
// each node. Each rule has a file of its own. What the scheduler itself has said is shown beside
// it.

// refusal is the reason why one rule excludes one node for a pod.
type refusal struct {
	on       Ref    // the object that has to change
	what     string // in a few words, the same for nodes that are excluded alike
	claim    *corev1.PersistentVolumeClaim
	evidence []Evidence
}

// schedulingRule is one filter of kube-scheduler.
type schedulingRule struct {
	name string
	says []string // what the scheduler's message has about the nodes that the filter excludes
	// chosen rules are a choice of the pod or the class: nodes that they exclude are often not
	// meant for it.
	chosen bool
	// ofPod rules are not about volumes.
	ofPod   bool
	refuses func(c *Cluster, pod *corev1.Pod, node *corev1.Node) (refusal, bool)
	explain func(c *Cluster, pod *corev1.Pod, by refusedBy, f Finding) Finding
	// nodeless rules have an answer without a node as well.
	nodeless bool
}

// schedulingRules returns the rules, those about volumes first.
func schedulingRules() []schedulingRule { return slices.Concat(rulesOfVolumes(), rulesOfPods()) }

func rulesOfVolumes() []schedulingRule {
	return []schedulingRule{
		{
			name:    "node affinity of the volumes",
			says:    []string{"volume node affinity conflict", "didn't match PersistentVolume's node affinity"},
			refuses: (*Cluster).volumeAffinity, explain: (*Cluster).unreachable,
		},
		{
			name: "zone labels of the volumes", says: []string{"no available volume zone"},
			refuses: (*Cluster).volumeZone, explain: (*Cluster).unreachable,
		},
		{
			name: "claims with ReadWriteOncePod", says: []string{"ReadWriteOncePod"}, nodeless: true,
			refuses: (*Cluster).usedOnce, explain: (*Cluster).inUse,
		},
		{
			name: "disks that another pod has", says: []string{"no available disk"},
			refuses: (*Cluster).diskConflict, explain: (*Cluster).inUse,
		},
		{
			name: "storage capacity", says: []string{"enough free storage"}, nodeless: true,
			refuses: (*Cluster).capacityShort, explain: (*Cluster).noCapacity,
		},
		{
			name: "volumes to bind", says: []string{noVolumeSaid}, nodeless: true,
			refuses: (*Cluster).noVolumeToBind, explain: (*Cluster).needsVolume,
		},
		{
			name: "attach limit", says: []string{"max volume count"},
			refuses: (*Cluster).attachLimitReached, explain: (*Cluster).fullNodes,
		},
		{
			name: "driver on the node", says: []string{"CSI driver is not installed"},
			refuses: (*Cluster).driverMissing, explain: (*Cluster).needsDriver,
		},
		{
			name: "allowedTopologies of the class", says: []string{noVolumeSaid}, chosen: true,
			refuses: (*Cluster).topologyNotAllowed, explain: (*Cluster).needsTopology,
		},
	}
}

// rulesOfPods are those that are not about volumes. A choice of the pod comes last.
func rulesOfPods() []schedulingRule {
	return []schedulingRule{
		{
			name: "nodes that are not ready", says: taintSaid, ofPod: true,
			refuses: (*Cluster).nodeUnhealthy, explain: (*Cluster).needsHealth,
		},
		{
			name: "cordoned nodes", says: []string{"were unschedulable"}, ofPod: true,
			refuses: (*Cluster).cordoned, explain: (*Cluster).needsUncordon,
		},
		{
			name: "resources", says: []string{"Insufficient", "Too many pods"}, ofPod: true,
			refuses: (*Cluster).resourcesShort, explain: (*Cluster).notTheVolume,
		},
		{
			name: "host ports", says: []string{"free ports for the requested pod ports"}, ofPod: true,
			refuses: (*Cluster).hostPortTaken, explain: (*Cluster).notTheVolume,
		},
		{
			name: "topology spread constraints", says: []string{"pod topology spread constraints"}, ofPod: true,
			refuses: (*Cluster).spreadViolated, explain: (*Cluster).notTheVolume,
		},
		{
			name: "pod anti-affinity", says: []string{"pod anti-affinity rules", "pod affinity/anti-affinity"},
			ofPod:   true,
			refuses: (*Cluster).podAntiAffinityViolated, explain: (*Cluster).notTheVolume,
		},
		{
			name: "anti-affinity of other pods", says: []string{"existing pods anti-affinity"}, ofPod: true,
			refuses: (*Cluster).excludedByNeighbour, explain: (*Cluster).notTheVolume,
		},
		{
			name: "pod affinity", says: []string{"pod affinity rules", "pod affinity/anti-affinity"},
			chosen: true, ofPod: true, refuses: (*Cluster).podAffinityUnmet, explain: (*Cluster).notTheVolume,
		},
		{
			name: "taints", says: taintSaid, chosen: true, ofPod: true,
			refuses: (*Cluster).tainted, explain: (*Cluster).notTheVolume,
		},
		{
			name:   "node selector and node affinity of the pod",
			says:   []string{"node affinity/selector", "match node selector"},
			chosen: true, ofPod: true, refuses: (*Cluster).notSelected, explain: (*Cluster).selectsOthers,
		},
	}
}

const noVolumeSaid = "find available persistent volumes to bind"

var taintSaid = []string{"untolerated taint", "taints that the pod didn't tolerate"}

// refusedBy has the nodes that one rule excludes.
type refusedBy struct {
	rule     schedulingRule
	nodes    []*corev1.Node // nil for the one that stands for all, where nodes are not known
	refusals []refusal      // of each node
	alone    int            // how many of the nodes no other rule excludes
	// among are the nodes that the volumes of the pod are reachable from, where these are not all.
	among []*corev1.Node
	// notAlone is set where a rule about volumes excludes other nodes.
	notAlone bool
}

// names has the nodes, few of them.
func (r refusedBy) names() string { return nodeNames(r.nodes) }

func nodeNames(nodes []*corev1.Node) string {
	var names []string
	for _, node := range nodes {
		if node != nil {
			names = append(names, node.Name)
		}
	}
	if more := len(names) - mostNear; more > 0 {
		names = append(names[:mostNear:mostNear], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// someEvidence is that of the first nodes.
func (r refusedBy) someEvidence() (all []Evidence) {
	for _, refusal := range r.refusals {
		for _, e := range refusal.evidence {
			if !slices.Contains(all, e) && len(all) < mostNear {
				all = append(all, e)
			}
		}
	}
	return all
}

// schedulable are the answers of all rules about a pod.
type schedulable struct {
	by    []refusedBy // the rules that exclude a node, in the order of the table
	fits  []*corev1.Node
	total int
}

// filter applies the rules to the nodes.
func (c *Cluster) filter(pod *corev1.Pod, rules []schedulingRule, nodes []*corev1.Node) schedulable {
	all := make([]refusedBy, len(rules))
	s := schedulable{total: len(nodes)}
	for _, node := range nodes {
		last, count := 0, 0
		for i, rule := range rules {
			if node == nil && !rule.nodeless {
				continue
			}
			if refusal, refused := rule.refuses(c, pod, node); refused {
				all[i].nodes, all[i].refusals = append(all[i].nodes, node), append(all[i].refusals, refusal)
				last, count = i, count+1
			}
		}
		switch count {
		case 0:
			s.fits = append(s.fits, node)
		case 1:
			all[last].alone++
		}
	}
	for i, r := range all {
		if len(r.nodes) > 0 {
			r.rule = rules[i]
			s.by = append(s.by, r)
		}
	}
	return s
}

// text lists the rules with the nodes that each excludes.
func (s schedulable) text() string {
	var parts []string
	for _, r := range s.by {
		if names := r.names(); names != "" {
			parts = append(parts, fmt.Sprintf("%s: %d of %d (%s)", r.rule.name, len(r.nodes), s.total, names))
		}
	}
	if len(s.fits) > 0 && s.fits[0] != nil {
		parts = append(parts, fmt.Sprintf("no rule: %d of %d (%s)", len(s.fits), s.total, nodeNames(s.fits)))
	}
	return strings.Join(parts, "; ")
}

// refusedEverywhere explains why each node is excluded; no findings if one is not.
func (c *Cluster) refusedEverywhere(pod *corev1.Pod, f Finding) ([]Finding, schedulable) {
	nodes := c.Nodes
	if c.lacks(Node) || len(nodes) == 0 {
		nodes = []*corev1.Node{nil}
	}
	rules := schedulingRules()
	whole := c.filter(pod, rules, nodes)
	if len(whole.fits) > 0 {
		return nil, whole
	}
	inner, among := whole, c.reachable(pod, nodes)
	if among != nil {
		inner = c.filter(pod, rules, among)
	}
	by := slices.Clone(inner.by)
	slices.SortStableFunc(by, func(a, b refusedBy) int { return compareRefusals(a, b, inner.total) })
	ofVolumes := slices.ContainsFunc(by, func(r refusedBy) bool { return r.alone > 0 && !r.rule.ofPod })
	var findings []Finding
	for i, r := range by {
		if i == 0 || r.alone > 0 && !r.rule.chosen {
			r.among, r.notAlone = among, ofVolumes
			findings = append(findings, r.rule.explain(c, pod, r, f))
		}
	}
	return findings, whole
}

// compareRefusals puts the rule first whose nodes no other rule excludes: one that is not a choice
// of the pod, then the one with the most of these nodes. Where each node is excluded by several
// rules, a rule that excludes all comes first.
func compareRefusals(a, b refusedBy, total int) int {
	rank := func(r refusedBy) int {
		switch {
		case r.alone > 0 && !r.rule.chosen:
			return 0
		case r.alone > 0:
			return 1
		case len(r.nodes) == total && r.rule.chosen:
			return 2
		case len(r.nodes) == total:
			return 3
		}
		return 4
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.alone, a.alone), cmp.Compare(len(b.nodes), len(a.nodes)))
}

// reachable returns the nodes that the existing volumes of the pod, bound or fit to be, are
// reachable from; nil if these are all, or none.
func (c *Cluster) reachable(pod *corev1.Pod, nodes []*corev1.Node) []*corev1.Node {
	volumes := c.boundVolumes(pod)
	reached := slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		_, lacksVolume := c.noVolumeToBind(pod, node)
		return node != nil && (lacksVolume || !reachesAll(node, volumes...))
	})
	if len(reached) == len(nodes) || len(reached) == 0 {
		return nil
	}
	return reached
}

// podScheduling explains a pod without a node.
func (c *Cluster) podScheduling(pod *corev1.Pod) []Finding {
	if findings := c.podClaims(pod); len(findings) > 0 {
		return findings
	}
	f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time)
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		return []Finding{gated(pod, f)}
	case pod.Status.NominatedNodeName != "":
		if found := c.preemption(pod, f); found != nil {
			return []Finding{*found}
		}
	}
	words := c.schedulerWords(pod)
	findings, computed := c.refusedEverywhere(pod, f)
	if found := c.exhausted(pod, f); found != nil {
		findings = append([]Finding{*found}, findings...)
	}
	switch {
	case len(findings) > 0:
	case len(words.Value) == 0:
		return []Finding{c.schedulerSilent(pod, f)}
	default:
		findings = []Finding{c.saidOnly(pod, words, f)}
	}
	findings[0].Evidence = append(findings[0].Evidence, compared(pod, words, computed)...)
	return findings
}

// gated is about a pod that the scheduler does not look at (KEP-3521).
func gated(pod *corev1.Pod, f Finding) Finding {
	gate := pod.Spec.SchedulingGates[0].Name
	f.Reason, f.Actor, f.WaitsFor = verdict.SchedulerSilent, User, "its scheduling gates to be taken off: "+gate
	f.Evidence = []Evidence{{podRef(pod), "spec.schedulingGates", gate, "absent"}}
	f.Fix = []Step{{
		Text:    "The program that put the gate on takes it off: read what that waits for",
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	return f
}

// schedulerSilent is about a pod that no scheduler has said anything about.
func (c *Cluster) schedulerSilent(pod *corev1.Pod, f Finding) Finding {
	if c.Now.Sub(pod.CreationTimestamp.Time) < patience {
		until := pod.CreationTimestamp.Add(patience)
		f.Reason, f.Actor, f.Until = verdict.WaitForPodScheduled, Itself, &until
		f.WaitsFor = "the scheduler, which has not looked at the pod yet"
		return f
	}
	f.Reason, f.Actor = verdict.SchedulerSilent, Administrator
	f.WaitsFor = fmt.Sprintf("scheduler %q, which has said nothing about the pod", schedulerOf(pod))
	f.Evidence = append(
		[]Evidence{{podRef(pod), "spec.schedulerName", schedulerOf(pod), "a scheduler that runs"}},
		c.leaseEvidence(scheduler)...)
	f.Fix = []Step{{Text: "See whether that scheduler runs", Command: "kubectl -n kube-system get pods,lease"}}
	if schedulerOf(pod) == corev1.DefaultSchedulerName {
		return c.byRunner(scheduler, f)
	}
	return f
}

func schedulerOf(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.SchedulerName, corev1.DefaultSchedulerName)
}

// podUnscheduled is about a claim whose pods have no node.
func (c *Cluster) podUnscheduled(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	for _, pod := range c.index.users[keyOf(claim)] {
		if isFinished(pod) || pod.Spec.NodeName != "" {
			continue
		}
		findings := c.podScheduling(pod)
		for i := range findings {
			found := &findings[i]
			found.Chain = append(
				[]Link{{claimRef(claim), "pod " + pod.Name + ", which has no node"}}, linksOf(*found)...,
			)
			found.Object = claimRef(claim)
			found.Evidence = append(
				[]Evidence{{podRef(pod), "spec.nodeName", "absent", "a node; the claim's class waits for it"}},
				found.Evidence...)
		}
		return findings
	}
	f.WaitsFor, f.Actor = "the scheduler to pick a node for a pod that uses the claim", Itself
	return []Finding{f}
}
