package populate

import (
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Termination is the termination message of a pod's container.
type Termination struct {
	Written int64  `json:"written"`           // bytes
	Problem string `json:"problem,omitempty"` // empty for success
}

// ReadTermination returns what a termination message says; a text that is none is the problem.
func ReadTermination(message string) Termination {
	if message == "" {
		return Termination{}
	}
	var t Termination
	if json.Unmarshal([]byte(message), &t) != nil {
		return Termination{Problem: message}
	}
	return t
}

// OutcomeOf returns how a pod ended. The container ended when it says so.
func OutcomeOf(ended *corev1.Pod) Outcome {
	o := Outcome{Message: ended.Status.Message, At: ended.CreationTimestamp.Time}
	for _, status := range ended.Status.ContainerStatuses {
		container := status.State.Terminated
		if container == nil {
			continue
		}
		if !container.FinishedAt.IsZero() {
			o.At = container.FinishedAt.Time
		}
		said := ReadTermination(container.Message)
		o.Written = said.Written
		switch {
		case said.Problem != "":
			o.Message = said.Problem
		case container.Reason != "":
			o.Message = container.Reason + ", exit code " + strconv.Itoa(int(container.ExitCode))
		}
	}
	return o
}
