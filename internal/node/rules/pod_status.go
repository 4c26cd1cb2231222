package mounting

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

const (
	volumesPublished = "all volumes of the pod are published on the node"
	// containersDoNotRun is said in a condition and in an event of each pod: its owner waits for them.
	containersDoNotRun = "the containers of the pod do not run: this node has no kubelet and no container runtime"
	readinessNotMet    = "a readiness gate of the pod is not True"
)

// report is written when the volumes are published, and when one of them fails or waits for
// something that a person may have to look at: a pod whose volumes come at once costs one write.
// The event about the containers goes with the write that says that the volumes are published, so it is
// emitted once.
func report(s PodSnapshot) []PodAction {
	why := s.missing()
	if why != "" && s.isUnderway() {
		return nil
	}
	want := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: names.ConditionVolumesPublished, Status: corev1.ConditionTrue,
		Reason: string(verdict.PodMounted), Message: volumesPublished,
	}}}
	if why != "" {
		c := &want.Conditions[0]
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, string(verdict.PodMounting), why
	}
	switch hasRun := s.Pod.Status.Phase == corev1.PodRunning; {
	case s.Runtime == ReportedContainers && (why == "" || hasRun): // a running pod stays running
		want.Phase = corev1.PodRunning
		want.InitContainerStatuses, want.ContainerStatuses = containerStatuses(s.Pod)
		want.Conditions = append(want.Conditions, runningConditions(s.Pod)...)
	default:
		want.Conditions = append(want.Conditions, condition(corev1.PodReady, corev1.ConditionFalse))
	}
	changed := changedStatus(s.Pod.Status, want)
	if changed == nil {
		return nil
	}
	actions := []PodAction{SetStatus{Status: *changed}}
	isNews := slices.ContainsFunc(changed.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == names.ConditionVolumesPublished && c.Status == corev1.ConditionTrue
	})
	if isNews {
		actions = append(actions, NotePod{
			Event: EventContainersNotRun, Message: volumesPublished + "; " + containersDoNotRun,
		})
	}
	return actions
}

func condition(t corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
	return corev1.PodCondition{
		Type: t, Status: status, Reason: string(verdict.PodContainersNotRun), Message: containersDoNotRun,
	}
}

// runningConditions are those of a kubelet for a pod that is ready. Their reason says that nothing
// runs. The pod's readiness gates hold, as with a kubelet.
func runningConditions(pod *corev1.Pod) []corev1.PodCondition {
	ready := condition(corev1.PodReady, corev1.ConditionTrue)
	for _, gate := range pod.Spec.ReadinessGates {
		if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == gate.ConditionType && c.Status == corev1.ConditionTrue
		}) {
			ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", readinessNotMet
		}
	}
	return []corev1.PodCondition{
		condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue),
		condition(corev1.PodInitialized, corev1.ConditionTrue),
		condition(corev1.ContainersReady, corev1.ConditionTrue),
		ready,
	}
}

// containerStatuses are those of a pod whose init containers have completed and whose containers run,
// without ids. The writer sets the time. A status that was reported before stays.
func containerStatuses(pod *corev1.Pod) (initial, main []corev1.ContainerStatus) {
	for _, c := range pod.Spec.InitContainers {
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true}
		if ptr.Deref(c.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			status.Started, status.State.Running = new(true), &corev1.ContainerStateRunning{}
		} else {
			status.State.Terminated = &corev1.ContainerStateTerminated{Reason: "Completed"}
		}
		initial = append(initial, status)
	}
	for _, c := range pod.Spec.Containers {
		main = append(main, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return initial, main
}

// changedStatus returns the fields that differ from the pod's status; nil if none does.
func changedStatus(have, want corev1.PodStatus) *corev1.PodStatus {
	var changed corev1.PodStatus
	for _, c := range want.Conditions {
		if !slices.ContainsFunc(have.Conditions, func(h corev1.PodCondition) bool {
			return h.Type == c.Type && h.Status == c.Status && h.Reason == c.Reason && h.Message == c.Message
		}) {
			changed.Conditions = append(changed.Conditions, c)
		}
	}
	if want.Phase != "" && want.Phase != have.Phase {
		changed.Phase = want.Phase
		changed.InitContainerStatuses, changed.ContainerStatuses = want.InitContainerStatuses, want.ContainerStatuses
	}
	if changed.Phase == "" && len(changed.Conditions) == 0 {
		return nil
	}
	return &changed
}
