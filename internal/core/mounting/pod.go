package mounting

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// PodAction is one thing to do about a pod. The interface is sealed.
//
//sumtype:decl
type PodAction interface{ podAction() }

type (
	// SetConditions writes conditions of the pod's status.
	SetConditions struct{ Conditions []corev1.PodCondition }
	// TellPod emits a warning on the pod, once for each message.
	TellPod struct{ Event, Message string }
	// CleanPod removes the empty folders of the pod. Anything else in them stays (5.10).
	CleanPod struct{ UID types.UID }
	// FinishPod deletes the object of a terminating pod for good.
	FinishPod struct{}
)

func (SetConditions) podAction() {}
func (TellPod) podAction()       {}
func (CleanPod) podAction()      {}
func (FinishPod) podAction()     {}

// PodVerdict is what this package answers about a pod.
type PodVerdict = verdict.Verdict[PodAction]

// Runtime says what becomes of a pod beside its volumes.
type Runtime int

const (
	// NoContainers is for a node on which no program runs containers: the agent deletes terminating
	// pods and says in the pods' status why nothing runs.
	NoContainers Runtime = iota
	// ForeignContainers leaves the pods to the program that runs their containers.
	ForeignContainers
)

// PodVolume is one volume of the pod, as far as the node has come.
type PodVolume struct {
	Name      string // in the pod
	Published bool
	Why       verdict.Finding // of one that is not published
}

// PodSnapshot is the world around one pod.
type PodSnapshot struct {
	UID      types.UID
	Pod      *corev1.Pod // nil: it is gone, or on another node
	Volumes  []PodVolume
	Problems []Problem
	// Recorded is how many volumes are still published to the pod, or may be.
	Recorded int
	// HasFolder reports whether the pod has a folder on the node.
	HasFolder bool
	Runtime   Runtime
}

// WantsVolumes reports whether the pod's volumes must be mounted: it is not finished, and not being
// deleted, or one of its containers still runs (5.2).
func WantsVolumes(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses,
			func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) {
		return true
	}
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// DecidePod says what to do for a pod.
func DecidePod(s PodSnapshot) PodVerdict {
	ends := s.Pod == nil || !WantsVolumes(s.Pod)
	switch {
	case ends && s.Recorded > 0:
		return verdict.Wait[PodAction]{Finding: verdict.Finding{Reason: verdict.PodUnmounting, Message: fmt.Sprintf(
			"the pod ends, and %d of its volumes are not unpublished yet", s.Recorded)}}
	case ends:
		return endPod(s)
	case s.Runtime == ForeignContainers:
		return tellProblems(s, nil)
	}
	return tellProblems(s, conditions(s))
}

func endPod(s PodSnapshot) PodVerdict {
	var actions []PodAction
	if s.HasFolder && (s.Pod == nil || s.Runtime == NoContainers) {
		actions = append(actions, CleanPod{UID: s.UID})
	}
	f := verdict.Finding{Reason: verdict.PodUnmounted, Message: "no volume of the pod is published on the node"}
	if s.Pod != nil && s.Pod.DeletionTimestamp != nil && s.Runtime == NoContainers {
		actions = append(actions, FinishPod{})
		f = verdict.Finding{
			Reason:  verdict.PodFinished,
			Message: "the pod is being deleted and its volumes are unpublished, so it goes",
		}
	}
	return verdict.DoFirst(f, actions, PodVerdict(verdict.Nothing[PodAction]{Finding: f}))
}

// tellProblems emits events about volumes that cannot be resolved; those of the others come from
// the steps that fail.
func tellProblems(s PodSnapshot, actions []PodAction) PodVerdict {
	for _, p := range s.Problems {
		actions = append(actions, TellPod{Event: EventFailedMount, Message: fmt.Sprintf(
			"Unable to attach or mount volumes: unmounted volumes=[%s], failed to process volumes=[%s]: %s", p.Volume, p.Volume, p.Message)})
	}
	f := verdict.Finding{Reason: verdict.PodMounted, Message: "the volumes of the pod are published"}
	if why := s.missing(); why != "" {
		f = verdict.Finding{Reason: verdict.PodMounting, Message: why}
	}
	return verdict.DoFirst(f, actions, PodVerdict(verdict.Wait[PodAction]{Finding: f}))
}

// missing says which volumes are not published and why; empty if all are.
func (s PodSnapshot) missing() string {
	var parts []string
	for _, v := range s.Volumes {
		if !v.Published {
			parts = append(parts, v.Name+": "+v.Why.Text())
		}
	}
	for _, p := range s.Problems {
		parts = append(parts, p.Volume+": "+p.Text())
	}
	return strings.Join(parts, "; ")
}

// conditions are written when the volumes are published, and when one of them fails or waits for
// something that a person may have to look at: a pod whose volumes come at once costs one write.
func conditions(s PodSnapshot) []PodAction {
	volumes := corev1.PodCondition{
		Type: names.ConditionVolumesPublished, Status: corev1.ConditionTrue,
		Reason: string(verdict.PodMounted),
	}
	if why := s.missing(); why != "" {
		volumes.Status, volumes.Reason, volumes.Message = corev1.ConditionFalse, string(verdict.PodMounting), why
		if s.isUnderway() {
			return nil
		}
	}
	wanted := []corev1.PodCondition{
		volumes,
		{
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: string(verdict.PodContainersNotRun),
			Message: "no container runtime on this node: purser node publishes the volumes of pods and does not run their containers",
		},
	}
	var changed []corev1.PodCondition
	for _, want := range wanted {
		if !slices.ContainsFunc(s.Pod.Status.Conditions, func(have corev1.PodCondition) bool {
			return have.Type == want.Type && have.Status == want.Status && have.Reason == want.Reason &&
				have.Message == want.Message
		}) {
			changed = append(changed, want)
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return []PodAction{SetConditions{Conditions: changed}}
}

// isUnderway reports whether each missing volume is just being worked on.
func (s PodSnapshot) isUnderway() bool {
	return len(s.Problems) == 0 && !slices.ContainsFunc(s.Volumes,
		func(v PodVolume) bool { return !v.Published && v.Why.Reason != "" })
}
