package groupsnapshotting

import (
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// AfterCreate turns the answer to CreateVolumeGroupSnapshot into the next verdict.
func AfterCreate(s Content, a Answer, f *snapshotting.Failure, now time.Time) ContentVerdict {
	c := s.Content
	if f == nil && a.Handle == "" { // SN-H8; the same call may still get a whole answer
		f = &snapshotting.Failure{
			Message: "the driver answered CreateVolumeGroupSnapshot without a group snapshot id",
			Unasked: true,
		}
	}
	if f != nil {
		then := contentRefuse{Finding: finding(verdict.GroupContentCallFailed,
			"Failed to create group snapshot: failed to take group snapshot of the volumes %s: %q",
			strings.Join(c.Spec.Source.VolumeHandles, ", "), f.Message)}
		var actions []ContentAction
		if f.IsFinal() {
			actions = append(actions, ClearCreating{})
		}
		return verdict.DoFirst[ContentAction](then.Finding, append(actions, failed(c, then.Message, now)...), then)
	}
	done := contentDo{
		Finding: finding(verdict.GroupContentIdle, "the driver made the group %q", a.Handle), Then: ready(),
		Actions: []ContentAction{WriteContentStatus{statusOf(c, a, now)}, ClearCreating{}},
	}
	if !a.Ready {
		done.Finding = finding(verdict.GroupContentPolled, "the driver made the group %q and is still processing it", a.Handle)
		done.Then = polled(s, now)
		if c.Status != nil && c.Status.VolumeGroupSnapshotHandle != nil && c.Status.Error == nil { // nothing is new
			done.Actions = nil
			if _, creating := c.Annotations[names.AnnGroupBeingCreated]; creating {
				done.Actions = []ContentAction{ClearCreating{}}
			}
		}
	}
	return done
}

// AfterFind turns the answer to GetVolumeGroupSnapshot into the next verdict.
func AfterFind(s Content, a Answer, f *snapshotting.Failure, now time.Time) ContentVerdict {
	if f == nil && a.Handle == "" {
		f = &snapshotting.Failure{Message: "can not find group snapshot for groupSnapshotID " + groupHandle(s.Content)}
	}
	if f != nil {
		then := contentRefuse{Finding: finding(verdict.GroupContentCheckFailed,
			"Failed to check and update group snapshot content: %s", f.Message)}
		return verdict.DoFirst[ContentAction](then.Finding, failed(s.Content, then.Message, now), then)
	}
	done := contentDo{Finding: finding(verdict.GroupContentIdle, "the group %q exists", a.Handle), Then: ready()}
	if !a.Ready {
		done.Finding = finding(verdict.GroupContentPolled, "the driver is still processing the group %q", a.Handle)
		done.Then = polled(s, now)
	}
	done.Actions = []ContentAction{WriteContentStatus{statusOf(s.Content, a, now)}}
	return done
}

// AfterDelete turns the answer to DeleteVolumeGroupSnapshot into the next verdict.
func AfterDelete(f *snapshotting.Failure) ContentVerdict {
	if f != nil {
		return contentRefuse{Finding: finding(verdict.GroupContentDeleteFailed, "Failed to delete group snapshot: %s", f.Message)}
	}
	return contentDo{
		Finding: finding(verdict.GroupContentDeleting, "the group is deleted"),
		Actions: []ContentAction{ReleaseContent{}}, Then: gone(),
	}
}

// statusOf merges an answer into the status: what is set stays, and readiness follows the driver.
func statusOf(
	c *groupv1.VolumeGroupSnapshotContent,
	a Answer,
	now time.Time,
) *groupv1.VolumeGroupSnapshotContentStatus {
	status := &groupv1.VolumeGroupSnapshotContentStatus{}
	if c.Status != nil {
		status = c.Status.DeepCopy()
	}
	if status.VolumeGroupSnapshotHandle == nil {
		status.VolumeGroupSnapshotHandle = new(a.Handle)
	}
	if status.CreationTime == nil {
		if a.Created.IsZero() { // the driver does not say when: not 1970 (SN-H7)
			a.Created = now
		}
		status.CreationTime = new(metav1.NewTime(a.Created))
	}
	if len(status.VolumeSnapshotInfoList) == 0 || a.Ready {
		status.VolumeSnapshotInfoList = a.Snapshots
	}
	status.ReadyToUse = new(a.Ready)
	status.Error = nil
	return status
}

// failed returns the write of an error into the status; none when it is there already (SN-A6).
func failed(c *groupv1.VolumeGroupSnapshotContent, message string, now time.Time) []ContentAction {
	if c.Status != nil && snapshotting.HasMessage(c.Status.Error, message) {
		return nil
	}
	status := &groupv1.VolumeGroupSnapshotContentStatus{}
	if c.Status != nil {
		status = c.Status.DeepCopy()
	}
	status.ReadyToUse = new(false)
	status.Error = snapshotting.NewStatusError(message, now)
	return []ContentAction{WriteContentStatus{status}}
}
