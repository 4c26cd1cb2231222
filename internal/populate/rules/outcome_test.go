package populate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The outcome of a pod is what its container says, else how it ended, else what the kubelet says.
func TestOutcomeOf(t *testing.T) {
	for want, status := range map[string]corev1.PodStatus{
		"no such host": {Message: "m", ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "Error", Message: `{"written":3,"problem":"no such host"}`},
		}}}},
		"OOMKilled, exit code 137": {ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137},
		}}}},
		"The node was low on resource: ephemeral-storage": {Message: "The node was low on resource: ephemeral-storage"},
	} {
		if got := OutcomeOf(&corev1.Pod{Status: status}); got.Message != want {
			t.Errorf("%q, want %q", got.Message, want)
		}
	}
}
