package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// schedulerWords returns the scheduler's message about a pod that it could not place: its
// condition, or its newest event. The value is empty if there is neither.
func (c *Cluster) schedulerWords(pod *corev1.Pod) Evidence {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
			condition.Message != "" {
			return Evidence{podRef(pod), "status.conditions[PodScheduled].message", condition.Message, ""}
		}
	}
	if event := c.lastEvent(podRef(pod), "FailedScheduling"); event != nil {
		return eventEvidence(event, c.Now)
	}
	return Evidence{}
}

// saidCount is a part of the scheduler's message: how many nodes a filter excludes.
type saidCount struct {
	nodes int
	words string
}

var (
	nodesInMessage = regexp.MustCompile(`\b0/(\d+) nodes are available: `)
	countInMessage = regexp.MustCompile(`^(\d+) (.+)$`)
)

// readMessage takes a message of the scheduler apart, such as "0/3 nodes are available: 1
// Insufficient cpu, 2 node(s) were unschedulable. preemption: …". total is 0 for a message of
// another form.
func readMessage(message string) (total int, counts []saidCount) {
	at := nodesInMessage.FindStringSubmatchIndex(message)
	if at == nil {
		return 0, nil
	}
	total, err := strconv.Atoi(message[at[2]:at[3]])
	if err != nil {
		return 0, nil
	}
	body, _, _ := strings.Cut(message[at[1]:], "preemption:")
	for part := range strings.SplitSeq(body, ", ") {
		words := strings.TrimRight(part, ". ”")
		if m := countInMessage.FindStringSubmatch(words); m != nil {
			if nodes, err := strconv.Atoi(m[1]); err == nil {
				counts = append(counts, saidCount{nodes, m[2]})
			}
		}
	}
	return total, counts
}

// differs reports whether the scheduler excludes nodes by a rule that, by the objects, excludes
// fewer. It stops at the first rule that excludes a node, so it may say less than is computed.
func (s schedulable) differs(message string) bool {
	total, counts := readMessage(message)
	if total == 0 {
		return false
	}
	for _, said := range counts {
		nodes := 0
		for _, r := range s.by {
			if r.rule.isSaid(said.words) {
				nodes += len(r.nodes)
			}
		}
		if nodes < said.nodes {
			return true
		}
	}
	return total != s.total
}

func (r schedulingRule) isSaid(words string) bool {
	return slices.ContainsFunc(r.says, func(part string) bool { return strings.Contains(words, part) })
}

// compared is the scheduler's message beside what is computed from the objects.
func compared(pod *corev1.Pod, words Evidence, computed schedulable) (all []Evidence) {
	field := "what excludes nodes by the rules of the scheduler, computed from the objects,"
	if words.Value != "" {
		all = append(all, words)
		if computed.differs(words.Value) {
			field = "the same, computed from the objects as they are now, which differs"
		}
	}
	if text := computed.text(); text != "" {
		all = append(all, Evidence{podRef(pod), field, text, ""})
	}
	return all
}

// saidOnly is about a pod that the scheduler refuses while no rule here excludes each node.
func (c *Cluster) saidOnly(pod *corev1.Pod, words Evidence, f Finding) Finding {
	f.Reason, f.Actor = verdict.PodUnschedulable, User
	f.WaitsFor = "a node that the scheduler accepts; its volumes are not the cause as far as the objects tell"
	var said []string
	aboutVolumes := false
	_, counts := readMessage(words.Value)
	for _, count := range counts {
		said = append(said, fmt.Sprintf("%d %s", count.nodes, count.words))
		aboutVolumes = aboutVolumes || strings.Contains(count.words, "olume") ||
			strings.Contains(count.words, "available disk")
	}
	text := "Read the scheduler's message: it names taints, resources or affinity of the pod"
	if len(said) > 0 {
		text = "What the scheduler says of the nodes: " + strings.Join(said, "; ")
	}
	f.Fix = []Step{{Text: text, Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)}}
	if aboutVolumes {
		f.Actor = Administrator
		f.WaitsFor = "a node that the scheduler accepts; it names the volumes, which the objects do not confirm"
		f.Fix = append(f.Fix, Step{
			Text: "If the message stays for minutes, the scheduler's cache is stale: restart the scheduler that " +
				"holds the lease. Pods that run are not affected",
			Command: "kubectl -n kube-system get lease kube-scheduler",
		})
	}
	return f
}
