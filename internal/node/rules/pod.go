package mounting

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// PodAction is one thing to do about a pod. The interface is sealed.
//
//sumtype:decl
type PodAction interface{ podAction() }

type (
	// SetStatus writes fields of the pod's status. Conditions of other types stay.
	SetStatus struct{ Status corev1.PodStatus }
	// NotePod emits a normal event on the pod.
	NotePod struct{ Event, Message string }
	// TellPod emits a warning on the pod, once for each message.
	TellPod struct{ Event, Message string }
	// CleanPod removes the empty folders of the pod. Anything else in them stays (5.10).
	CleanPod struct{ UID types.UID }
	// FinishPod deletes the object of a terminating pod for good.
	FinishPod struct{}
)

func (SetStatus) podAction() {}
func (NotePod) podAction()   {}
func (TellPod) podAction()   {}
func (CleanPod) podAction()  {}
func (FinishPod) podAction() {}

// PodVerdict is what this package answers about a pod.
type PodVerdict = verdict.Verdict[PodAction]

// Runtime says what becomes of a pod beside its volumes.
type Runtime int

const (
	// NoContainers is for a node on which no program runs containers: the agent deletes terminating
	// pods and says in the pods' status why nothing runs.
	NoContainers Runtime = iota
	// ReportedContainers is NoContainers, and a pod whose volumes are published is reported as
	// running and ready, so that the controllers of workloads go on. The containers do not run.
	ReportedContainers
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
	// Finished reports whether the agent has deleted the pod: its end is in the watch later than in the
	// API server.
	Finished bool
}

// WantsVolumes reports whether the pod's volumes must be mounted: it is not finished, and not being
// deleted, or one of its containers still runs (5.2).
func WantsVolumes(pod *corev1.Pod) bool {
	if slices.ContainsFunc(pod.Status.ContainerStatuses, runs) ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, runs) {
		return true
	}
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded &&
		pod.Status.Phase != corev1.PodFailed
}

// runs reports whether a container runs. Without an id it does not: the agent reported it
// ([ReportedContainers]), and a kubelet gives each container an id.
func runs(c corev1.ContainerStatus) bool { return c.State.Running != nil && c.ContainerID != "" }

// DecidePod says what to do for a pod.
func DecidePod(s PodSnapshot) PodVerdict {
	ends := s.Pod == nil || !WantsVolumes(s.Pod)
	switch {
	case ends && s.Recorded > 0:
		return verdict.Wait[PodAction]{Finding: verdict.Because(
			verdict.PodUnmounting, "the pod ends, and %d of its volumes are not unpublished yet", s.Recorded,
		)}
	case ends:
		return endPod(s)
	case s.Runtime == ForeignContainers:
		return tellProblems(s, nil)
	}
	return tellProblems(s, report(s))
}

func endPod(s PodSnapshot) PodVerdict {
	var actions []PodAction
	if s.HasFolder && (s.Pod == nil || s.Runtime != ForeignContainers) {
		actions = append(actions, CleanPod{UID: s.UID})
	}
	f := verdict.Because(verdict.PodUnmounted, "no volume of the pod is published on the node")
	if s.Pod != nil && s.Pod.DeletionTimestamp != nil && s.Runtime != ForeignContainers {
		if !s.Finished {
			actions = append(actions, FinishPod{})
		}
		f = verdict.Because(verdict.PodFinished, "the pod is being deleted and its volumes are unpublished, so it goes")
	}
	return verdict.DoFirst(f, actions, PodVerdict(verdict.Nothing[PodAction]{Finding: f}))
}

// tellProblems emits events about volumes that cannot be resolved; those of the others come from
// the steps that fail.
func tellProblems(s PodSnapshot, actions []PodAction) PodVerdict {
	for _, p := range s.Problems {
		actions = append(actions, TellPod{Event: EventFailedMount, Message: fmt.Sprintf(
			"Unable to attach or mount volumes: unmounted volumes=[%s], failed to process volumes=[%s]: %s", p.Volume,
			p.Volume, p.Message)})
	}
	f := verdict.Because(verdict.PodMounted, "the volumes of the pod are published")
	if why := s.missing(); why != "" {
		f = verdict.Because(s.waitsFor(), "%s", why)
	}
	return verdict.DoFirst(f, actions, PodVerdict(verdict.Wait[PodAction]{Finding: f}))
}

// missing says which volumes are not published and why; empty if all are.
func (s PodSnapshot) missing() string {
	var parts []string
	for _, v := range s.Volumes {
		if !v.Published {
			why := v.Why.Text()
			if v.Why.Reason == "" {
				why = "being mounted"
			}
			parts = append(parts, v.Name+": "+why)
		}
	}
	for _, p := range s.Problems {
		parts = append(parts, p.Volume+": "+p.Text())
	}
	return strings.Join(parts, "; ")
}

// waitsFor returns the reason why volumes are not published. The loop emits an event about a long wait,
// so the reason of a wait goes before that of a failure, which has an event of its own.
func (s PodSnapshot) waitsFor() verdict.Reason {
	var failed verdict.Reason
	note := func(reason verdict.Reason) (isWait bool) {
		if verdict.WaitsLong(reason) == "" {
			return true
		}
		if failed == "" {
			failed = reason
		}
		return false
	}
	for _, v := range s.Volumes {
		switch {
		case v.Published:
		case v.Why.Reason == "":
			failed = verdict.PodMounting
		case note(v.Why.Reason):
			return v.Why.Reason
		}
	}
	for _, p := range s.Problems {
		if note(p.Reason) {
			return p.Reason
		}
	}
	return cmp.Or(failed, verdict.PodMounting)
}

// isUnderway reports whether each missing volume is just being worked on.
func (s PodSnapshot) isUnderway() bool {
	return len(s.Problems) == 0 && !slices.ContainsFunc(s.Volumes,
		func(v PodVolume) bool { return !v.Published && v.Why.Reason != "" })
}
