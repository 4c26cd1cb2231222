package resizing

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Answer is the response of ControllerExpandVolume, or its error.
type Answer struct {
	Capacity int64 // bytes
	OnNode   bool  // node_expansion_required
	Failure  *Failure
}

// AfterExpand returns what follows after a call to the driver with this size.
func AfterExpand(s Snapshot, size resource.Quantity, answer Answer) Verdict {
	if answer.Failure != nil {
		return failed(s, size, *answer.Failure)
	}
	if answer.Capacity < size.Value() { // RZ-H3: a capacity of 0 or below the requested size is invalid
		return failed(
			s, size,
			Failure{
				Message: fmt.Sprintf("the driver answers with %d bytes, and %d were asked for", answer.Capacity, size.Value()),
			},
		)
	}
	capacity := *resource.NewQuantity(answer.Capacity, resource.BinarySI)
	raise := RaiseVolume{Capacity: capacity}
	if !answer.OnNode {
		done := verdict.Finding{Reason: verdict.ResizeDone, Message: "Resize volume succeeded"}
		return do{
			Finding: done, Actions: []Action{raise, Finish{Size: size, Capacity: capacity}},
			Then: nothing{Finding: done},
		}
	}
	_, annotated := s.Volume.Annotations[names.AnnPreResizeCapacity]
	if s.AnnotateFS && (!annotated || leftOver(s)) { // this run has removed what is left over
		old := s.Claim.Status.Capacity[corev1.ResourceStorage]
		raise.OldSize = old.String()
	}
	onNode := verdict.Finding{
		Reason:  verdict.ResizeNodeRequired,
		Message: "Require file system resize of volume on node",
	}
	return do{Finding: onNode, Actions: []Action{raise, HandToNode{size}}, Then: wait{Finding: onNode}}
}

// failed is RZ-X8 to RZ-X12. After an uncertain error the status keeps the size, and only this size
// is sent to the driver.
func failed(s Snapshot, size resource.Quantity, f Failure) Verdict {
	then := refuse{Finding: verdict.Finding{
		Reason: verdict.ResizeFailed, Code: f.Code.String(),
		Message: fmt.Sprintf("resize volume %q by resizer %q failed: %s", s.Volume.Name, s.Driver.Name, f.Message),
	}}
	switch {
	case f.Code == 0: // the answer was unusable, so the size may have been reached
		then.Code = ""
		return then
	case isInfeasible(f):
		then.Reason, then.Retry = verdict.ResizeRefused, verdict.RetrySlowly
		then.Fix = "Ask for a size that the driver accepts; a smaller one than before is tried at once"
		return do{
			Finding: then.Finding, Actions: []Action{Fail{Size: size, Message: condition(f), Infeasible: true}},
			Then: then,
		}
	case f.IsFinal():
		return do{Finding: then.Finding, Actions: []Action{Fail{Size: size, Message: condition(f)}}, Then: then}
	}
	return then
}

func condition(f Failure) string {
	return fmt.Sprintf("failed to expand pvc with %s", f.Message)
}
