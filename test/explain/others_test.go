package explain

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/explain/inventory"
	rules "github.com/purser-csi/purser/internal/explain/rules"
)

// The checks of two other programs, as their sources have them, so that docs/explain.md can say how many of the
// situations each of them reports: k8sgpt (pkg/analyzer/pvc.go at 0ffe6f3, pod.go at 0e09c5d, storage.go at
// 50940c6, events.go at 2616220) and popeye (internal/lint/pvc.go at 13b2262, pv.go at 6df48cb, pod.go at
// 13381e2). Each returns whether the program reports an object.

// latestEvent is the newest event about an object of the name, of whatever kind.
func latestEvent(c *rules.Cluster, namespace, name string) *corev1.Event {
	var latest *corev1.Event
	for _, event := range c.Events {
		if event.Namespace == namespace && event.InvolvedObject.Name == name &&
			(latest == nil || event.LastTimestamp.After(latest.LastTimestamp.Time)) {
			latest = event
		}
	}
	return latest
}

// k8sgpt has the analyzers that run without a filter.
func k8sgpt(c *rules.Cluster, of rules.Ref) bool {
	switch of.Kind {
	case rules.Claim:
		for _, claim := range c.Claims {
			if claim.Name == of.Name && claim.Namespace == of.Namespace && claim.Status.Phase == corev1.ClaimPending {
				event := latestEvent(c, of.Namespace, of.Name)
				return event != nil && event.Reason == "ProvisioningFailed"
			}
		}
	case rules.Pod:
		for _, pod := range c.Pods {
			if pod.Name == of.Name && pod.Namespace == of.Namespace {
				return k8sgptPod(c, pod)
			}
		}
	default:
	}
	return false
}

func k8sgptPod(c *rules.Cluster, pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if pod.Status.Phase == corev1.PodPending && condition.Type == corev1.PodScheduled &&
			condition.Reason == "Unschedulable" && condition.Message != "" {
			return true
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		waiting := status.State.Waiting
		event := latestEvent(c, pod.Namespace, pod.Name)
		switch {
		case waiting == nil:
			if !status.Ready && pod.Status.Phase == corev1.PodRunning && event != nil && event.Reason == "Unhealthy" {
				return true
			}
		case waiting.Reason == "CrashLoopBackOff", waiting.Reason == "ImagePullBackOff":
			return waiting.Message != ""
		case waiting.Reason == "ContainerCreating" && event != nil && event.Reason == "FailedCreatePodSandBox":
			return true
		}
	}
	return false
}

// k8sgptStorage has the analyzer Storage as well, which a filter turns on.
func k8sgptStorage(c *rules.Cluster, of rules.Ref) bool {
	isSmall := func(list corev1.ResourceList) bool {
		size, has := list[corev1.ResourceStorage]
		return has && size.Cmp(resource.MustParse("1Gi")) < 0
	}
	for _, pv := range c.Volumes {
		if of.Kind == rules.Volume && pv.Name == of.Name {
			return pv.Status.Phase == corev1.VolumeReleased || pv.Status.Phase == corev1.VolumeFailed || isSmall(pv.Spec.Capacity)
		}
	}
	for _, claim := range c.Claims {
		if of.Kind == rules.Claim && claim.Name == of.Name && claim.Namespace == of.Namespace {
			return claim.Status.Phase == corev1.ClaimPending || claim.Status.Phase == corev1.ClaimLost ||
				isSmall(claim.Spec.Resources.Requests) || claim.Spec.StorageClassName == nil && claim.Spec.VolumeName == ""
		}
	}
	return k8sgpt(c, of)
}

// popeye reports phases. Its code 400 about a claim that no pod names says that it is unused, not that it is
// stuck, and does not count.
func popeye(c *rules.Cluster, of rules.Ref) bool {
	for _, claim := range c.Claims {
		if of.Kind == rules.Claim && claim.Name == of.Name && claim.Namespace == of.Namespace {
			return claim.Status.Phase == corev1.ClaimPending || claim.Status.Phase == corev1.ClaimLost
		}
	}
	for _, pv := range c.Volumes {
		if of.Kind == rules.Volume && pv.Name == of.Name {
			phase := pv.Status.Phase
			return phase == corev1.VolumeAvailable || phase == corev1.VolumePending || phase == corev1.VolumeFailed
		}
	}
	for _, pod := range c.Pods {
		if of.Kind == rules.Pod && pod.Name == of.Name && pod.Namespace == of.Namespace {
			return pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodSucceeded
		}
	}
	return false
}

// TestTableOfOthers compares the table of docs/explain.md with the checks above over all situations, in percent.
// A difference of a few situations is no fault.
func TestTableOfOthers(t *testing.T) {
	base, all := readSituations(t)
	counts := map[string][4]int{}
	for _, s := range all {
		kind, name, _ := strings.Cut(s.Explain, "/")
		of := map[string]rules.Kind{"pvc": rules.Claim, "pod": rules.Pod, "pv": rules.Volume}[kind]
		if s.State == rules.Well || of == "" {
			continue
		}
		ref := rules.Ref{Kind: of, Name: name}
		if of.IsNamespaced() {
			ref.Namespace = "shop"
		}
		c := clusterOf(t, s, base)
		count := counts[kind]
		count[0]++
		for i, reports := range []func(*rules.Cluster, rules.Ref) bool{k8sgpt, k8sgptStorage, popeye} {
			if reports(c, ref) {
				count[i+1]++
			}
		}
		counts[kind] = count
	}
	page, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	for kind, count := range counts {
		row := regexp.MustCompile(`(?m)^\| ` + "`" + kind + "`" + ` \| (\d+) % \| (\d+) % \| (\d+) % \|`).FindStringSubmatch(string(page))
		want := fmt.Sprintf("| `%s` | %d %% | %d %% | %d %% |", kind, count[1]*100/count[0], count[2]*100/count[0], count[3]*100/count[0])
		if row == nil {
			t.Errorf("docs/explain.md has no row %s", want)
			continue
		}
		for i, text := range row[1:] {
			if share, _ := strconv.Atoi(text); share < count[i+1]*100/count[0]-4 || share > count[i+1]*100/count[0]+4 {
				t.Errorf("docs/explain.md has %s, want %s", row[0], want)
			}
		}
	}
}

func clusterOf(t *testing.T, s situation, base []map[string]any) *rules.Cluster {
	t.Helper()
	text, err := os.ReadFile(s.dump(t, base))
	if err != nil {
		t.Fatal(err)
	}
	builder := inventory.NewBuilder(time.Time{})
	if _, err := builder.Parse("dump", text); err != nil {
		t.Fatal(err)
	}
	return builder.Cluster()
}
