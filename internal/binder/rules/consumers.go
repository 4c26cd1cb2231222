package binding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// Consumer is a pod that uses a claim without a volume.
type Consumer struct {
	Pod  string
	Node string // that it is on, which cannot be by a scheduler that minds volumes; "" for none
	Why  string // it has no node, in the scheduler's words; "" when that has not said
}

// ConsumerOf returns what binding needs to know of a pod; ok is false for a pod that has ended or is
// being deleted, and so waits for no volume.
func ConsumerOf(pod *corev1.Pod) (c Consumer, ok bool) {
	if !ephemeral.Wants(pod) {
		return Consumer{}, false
	}
	return Consumer{Pod: pod.Name, Node: pod.Spec.NodeName, Why: unscheduled(pod)}, true
}

// unscheduled is why a pod has no node, in the scheduler's words.
func unscheduled(pod *corev1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// How much of the scheduler's words goes into an event: of how many pods, and how many bytes of
// each. An event has 1,024.
const (
	mostExplained = 3
	mostWords     = 200
)

// awaitPod says which pods the scheduler has not placed, for binding waits for one of them (8.23);
// or that there are none, and why it waits in vain for those that are past the scheduler (8.21).
func awaitPod(pods []Consumer) Verdict {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b Consumer) int { return cmp.Compare(a.Pod, b.Pod) })
	var waits []string
	for _, pod := range pods {
		if pod.Node == "" {
			waits = append(waits, pod.Pod)
		}
	}
	switch {
	case len(pods) == 0:
		return waiting(verdict.WaitForFirstConsumer, "waiting for first consumer to be created before binding")
	case len(waits) == 0:
		return waiting(
			verdict.SchedulerBypassed,
			fmt.Sprintf("waiting for first consumer to be created before binding: pod %s is on node %s, "+
				"and no scheduler has picked that node for the claim. Create the pod without spec.nodeName, for a "+
				"scheduler that binds volumes",
				pods[0].Pod, pods[0].Node),
		)
	case len(waits) == 1:
		return waiting(
			verdict.WaitForPodScheduled,
			fmt.Sprintf("waiting for pod %s to be scheduled%s", waits[0], explain(pods)),
		)
	}
	return waiting(
		verdict.WaitForPodScheduled,
		fmt.Sprintf("waiting for pods %s to be scheduled%s", strings.Join(waits, ","), explain(pods)),
	)
}

// explain is what the scheduler says of the pods.
func explain(pods []Consumer) string {
	var why []string
	for _, pod := range pods {
		if words := shorten(pod.Why); words != "" && len(why) < mostExplained {
			why = append(why, fmt.Sprintf("%s: %s", pod.Pod, words))
		}
	}
	if len(why) == 0 {
		return ""
	}
	return " (" + strings.Join(why, "; ") + ")"
}

func shorten(words string) string {
	if len(words) <= mostWords {
		return words
	}
	return strings.ToValidUTF8(words[:mostWords], "") + "…"
}
