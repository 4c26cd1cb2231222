package mounting

import (
	"fmt"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// Reasons of events. They are contracts with a kubelet (5.1).
const (
	EventFailedMount        = "FailedMount"
	EventContainersNotRun   = "ContainersNotRun"
	EventFailedMap          = "FailedMapVolume"
	EventResizeFailed       = "VolumeResizeFailed"
	EventResizeSuccess      = "FileSystemResizeSuccessful"
	EventPermissionProgress = "VolumePermissionChangeInProgress"
)

func failed(f Failure, reason verdict.Reason, message string) verdict.Finding {
	finding := verdict.Because(reason, "%s", message)
	if !f.NoAnswer {
		finding.Code = f.Code.String()
	}
	return finding
}

// AfterStage says what follows a failed staging; nil after a success. After a final error nothing
// of the attempt may stay, unless a pod still has the volume.
func AfterStage(s Snapshot, use Use, failure *Failure) Verdict {
	if failure == nil {
		return nil
	}
	event, text := EventFailedMount, "MountVolume.MountDevice"
	if use.ID.Mode == Block {
		event, text = EventFailedMap, "MapVolume.SetUpDevice"
	}
	message := fmt.Sprintf("%s failed for volume %q : %s", text, use.ID.Spec, failure.Words())
	var actions []Action
	if _, known := s.Record.Device(use.ID.Device()); failure.IsFinal() && !known {
		actions = append(actions, CleanDevice{use})
	}
	return refuseWithEvent(actions, use, event, failed(*failure, verdict.StageFailed, message))
}

// AfterPublish says what follows a failed publication; nil after a success. A pod that has had the
// volume keeps it whatever a repetition answers (#121271).
func AfterPublish(use Use, before Publication, failure *Failure) Verdict {
	if failure == nil {
		return nil
	}
	event, text := EventFailedMount, "MountVolume.SetUp"
	if use.ID.Mode == Block {
		event, text = EventFailedMap, "MapVolume.MapPodDevice"
	}
	message := fmt.Sprintf("%s failed for volume %q : %s", text, use.ID.Spec, failure.Words())
	var actions []Action
	if failure.IsFinal() && !before.Published && use.ID.Mode == Filesystem {
		actions = append(actions, CleanPublication{use})
	}
	return refuseWithEvent(actions, use, event, failed(*failure, verdict.PublishFailed, message))
}

// refuseWithEvent ends with a refusal that the pod's user reads in an event.
func refuseWithEvent(actions []Action, use Use, event string, f verdict.Finding) Verdict {
	actions = append(actions, Tell{Pods: []*corev1.Pod{use.Pod}, Event: event, Message: f.Message})
	return do{Finding: f, Actions: actions, Then: refuse{Finding: f}}
}

// AfterUnpublish says what follows a failed unpublication; nil after a success. It is tried again:
// the driver must answer with success before anything is removed.
func AfterUnpublish(p Publication, failure *Failure) Verdict {
	if failure == nil {
		return nil
	}
	message := fmt.Sprintf("unpublishing volume %q from pod %s failed: %s", p.Spec, p.Pod, failure.Words())
	return refuse{Finding: failed(*failure, verdict.UnpublishFailed, message)}
}

// AfterUnstage says what follows a failed unstaging; nil after a success.
func AfterUnstage(s Snapshot, failure *Failure) Verdict {
	if failure == nil {
		return nil
	}
	return refuse{Finding: failed(*failure, verdict.UnstageFailed, fmt.Sprintf(
		"unstaging volume %s failed: %s", s.Key.VolumeID(), failure.Words(),
	))}
}

// AfterExpand says what follows a failed expansion; nil after a success. The volume is published
// already, so the pod goes on with the old size. An error that no repetition can change is noted in
// the claim's status and not tried again (5.9).
func AfterExpand(use Use, failure *Failure) Verdict {
	if failure == nil {
		return nil
	}
	message := fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %s", use.ID.Spec, failure.Words())
	f := failed(*failure, verdict.NodeExpandFailed, message)
	tell := Tell{Pods: []*corev1.Pod{use.Pod}, Event: EventResizeFailed, Message: message}
	if IsInfeasible(*failure) || NeedsUnused(*failure) {
		return do{Finding: f, Actions: []Action{tell}, Then: wait{Finding: f}}
	}
	return do{Finding: f, Actions: []Action{tell}, Then: refuse{Finding: f}}
}

// NeedsUnused reports whether the driver expands the volume only while no pod has it: the expansion
// is made when the volume is mounted next (5.9).
func NeedsUnused(f Failure) bool { return f.Answered(codes.FailedPrecondition) }

// IsInfeasible reports whether an expansion will fail however often it is repeated (5.9).
func IsInfeasible(f Failure) bool {
	return f.Answered(codes.InvalidArgument, codes.OutOfRange, codes.NotFound)
}
