package resizing

import (
	"fmt"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// Answer is the response of ControllerExpandVolume, or its error.
type Answer struct {
	Capacity int64 // bytes
	OnNode   bool  // node_expansion_required
	Failure  *Failure
	Unsent   string // why the call could not be made
}

// AfterExpand returns what follows after a call to the driver.
func AfterExpand(s Snapshot, sent Expand, answer Answer) Verdict {
	switch {
	case answer.Unsent != "":
		return refuse{Finding: verdict.Because(verdict.ResizeFailed, "%s", answer.Unsent)}
	case answer.Failure != nil:
		return verdict.Coded(failed(s, sent, *answer.Failure), answer.Failure.CodeName())
	}
	if answer.Capacity < sent.Bytes { // RZ-H3: a capacity of 0 or below the requested size is invalid
		return failed(
			s, sent,
			Failure{
				Message: fmt.Sprintf(
					"the driver answers with %d bytes, and %d were asked for", answer.Capacity, sent.Bytes,
				),
			},
		)
	}
	capacity := size.Quantity(answer.Capacity)
	raise := RaiseVolume{Capacity: capacity}
	if !answer.OnNode {
		done := verdict.Because(verdict.ResizeDone, "Resize volume succeeded")
		return do{
			Finding: done, Actions: []Action{raise, Finish{Size: sent.Size, Capacity: capacity}},
			Then: nothing{Finding: done},
		}
	}
	_, annotated := s.Volume.Annotations[names.AnnPreResizeCapacity]
	if s.AnnotateFS && (!annotated || leftOver(s)) { // this run has removed what is left over
		old := s.Claim.Status.Capacity[corev1.ResourceStorage]
		raise.OldSize = old.String()
	}
	onNode := verdict.Because(verdict.ResizeNodeRequired, "Require file system resize of volume on node")
	return do{Finding: onNode, Actions: []Action{raise, HandToNode{sent.Size}}, Then: wait{Finding: onNode}}
}

// failed is RZ-X8 to RZ-X12. After an uncertain error the status keeps the size, and only this size
// is sent to the driver.
func failed(s Snapshot, sent Expand, f Failure) Verdict {
	then := refuse{Finding: verdict.Finding{
		Reason: verdict.ResizeFailed, Code: f.CodeName(),
		Message: fmt.Sprintf("resize volume %q by resizer %q failed: %s", s.Volume.Name, s.Driver.Name, f.Words()),
	}}
	switch {
	case f.Code == 0: // the answer was unusable, so the size may have been reached
		then.Code = ""
		return then
	case isInfeasible(f):
		then.Reason, then.Retry = verdict.ResizeRefused, verdict.RetrySlowly
		then.Fix = askForLess(s, f)
		return do{
			Finding: then.Finding, Actions: []Action{Fail{Size: sent.Size, Message: condition(f), Infeasible: true}},
			Then: then,
		}
	case f.IsFinal():
		then.Fix = askForLess(s, f)
		return do{Finding: then.Finding, Actions: []Action{Fail{Size: sent.Size, Message: condition(f)}}, Then: then}
	}
	return then
}

// askForLess says what the user of a claim can do about a size that the driver does not give. It is empty for
// a code that is never about the size, such as FailedPrecondition of a volume in use.
func askForLess(s Snapshot, f Failure) string {
	switch f.Code {
	case codes.OutOfRange, codes.InvalidArgument, codes.Internal: // many drivers answer Internal for a full pool
	default:
		return ""
	}
	has := s.Claim.Status.Capacity[corev1.ResourceStorage]
	return fmt.Sprintf(
		"Ask for less, though for more than the present %s, in spec.resources.requests.storage; that is tried at once",
		has.String(),
	)
}

func condition(f Failure) string {
	return fmt.Sprintf("failed to expand pvc with %s", f.Words())
}
