package snapshotting

import (
	"fmt"
	"time"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// AfterCreate turns the answer to CreateSnapshot into the next verdict.
func AfterCreate(s ContentSnapshot, a Answer, f *Failure, now time.Time) ContentVerdict {
	c := s.Content
	if f == nil && a.Handle == "" { // SN-H8; the same call may still get a whole answer
		f = &Failure{Message: "the driver answered CreateSnapshot without a snapshot id", Unasked: true}
	}
	if f != nil {
		message := fmt.Sprintf(
			"Failed to create snapshot: failed to take snapshot of the volume %s: %q",
			*c.Spec.Source.VolumeHandle,
			f.Message,
		)
		then := contentRefuse{Finding: verdict.Finding{Reason: verdict.ContentCreateFailed, Message: message}}
		var actions []ContentAction
		if f.IsFinal() {
			actions = append(actions, ClearCreating{})
		}
		return verdict.DoFirst[ContentAction](then.Finding, append(actions, failed(c, message, now)...), then)
	}
	done := contentDo{
		Finding: finding(verdict.ContentIdle, "the driver made the snapshot %q", a.Handle),
		Then:    idleReady(),
	}
	done.Actions = []ContentAction{WriteContentStatus{statusOf(c, a, now)}, ClearCreating{}}
	if !a.Ready {
		done.Finding = finding(verdict.ContentPolled, "the driver made the snapshot %q and is still processing it", a.Handle)
		done.Then = polled(s, now)
		if c.Status != nil && c.Status.SnapshotHandle != nil && c.Status.Error == nil { // polled again: nothing is new
			done.Actions = nil
			if has(c.Annotations, names.AnnSnapshotBeingCreated) {
				done.Actions = []ContentAction{ClearCreating{}}
			}
		}
	}
	return done
}

// AfterFind turns the answer to ListSnapshots into the next verdict. Without LIST_SNAPSHOTS the
// answer is what the content says.
func AfterFind(s ContentSnapshot, a Answer, f *Failure, now time.Time) ContentVerdict {
	if f == nil && a.Handle == "" {
		f = &Failure{Message: "can not find snapshot for snapshotID " + handle(s.Content)}
	}
	if f != nil {
		message := "Failed to check and update snapshot content: " + f.Message
		then := contentRefuse{Finding: verdict.Finding{Reason: verdict.ContentCheckFailed, Message: message}}
		return verdict.DoFirst[ContentAction](then.Finding, failed(s.Content, message, now), then)
	}
	done := contentDo{Finding: finding(verdict.ContentIdle, "the snapshot %q exists", a.Handle), Then: idleReady()}
	if !a.Ready {
		done.Finding = finding(verdict.ContentPolled, "the driver is still processing the snapshot %q", a.Handle)
		done.Then = polled(s, now)
		if c := s.Content; c.Status != nil && c.Status.SnapshotHandle != nil && c.Status.Error == nil {
			return done
		}
	}
	done.Actions = []ContentAction{WriteContentStatus{statusOf(s.Content, a, now)}}
	return done
}

// AfterDelete turns the answer to DeleteSnapshot into the next verdict. NotFound is a failure as
// well (SN-K2): the CSI specification has a driver answer OK for a snapshot that is gone.
func AfterDelete(f *Failure) ContentVerdict {
	if f != nil {
		return contentRefuse{Finding: finding(verdict.ContentDeleteFailed, "Failed to delete snapshot: %s", f.Message)}
	}
	return contentDo{
		Finding: finding(
			verdict.ContentDeleting,
			"the snapshot is deleted",
		), Actions: []ContentAction{ReleaseContent{}}, Then: gone(),
	}
}
