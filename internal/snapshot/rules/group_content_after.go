package snapshotting

import (
	"strings"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func groupAnswerFor(s Content, a GroupAnswer, now time.Time) contentAnswer {
	c := s.Content
	return contentAnswer{
		contentKind: group, content: c, volumes: strings.Join(c.Spec.Source.VolumeHandles, ", "),
		handle: groupHandle(c),
		taken:  c.Status != nil && c.Status.VolumeGroupSnapshotHandle != nil && c.Status.Error == nil,
		answer: a.Handle, ready: a.Ready, write: GroupWriteContentStatus{groupStatusOf(c, a, now)},
		writeError: func(message string) []ContentAction { return groupFailed(c, message, now) },
	}
}

// GroupAfterCreate turns the answer to CreateVolumeGroupSnapshot into the next verdict.
func GroupAfterCreate(s Content, a GroupAnswer, f *Failure, now time.Time) ContentVerdict {
	return groupAnswerFor(s, a, now).afterCreate(f, now)
}

// GroupAfterFind turns the answer to GetVolumeGroupSnapshot into the next verdict. Each answer can
// have snapshots that the status lacks.
func GroupAfterFind(s Content, a GroupAnswer, f *Failure, now time.Time) ContentVerdict {
	answer := groupAnswerFor(s, a, now)
	answer.taken = false
	return answer.afterFind(f, now)
}

// GroupAfterDelete turns the answer to DeleteVolumeGroupSnapshot into the next verdict.
func GroupAfterDelete(s Content, f *Failure) ContentVerdict {
	return group.afterDelete(s.Content.Name, f)
}

// groupStatusOf merges an answer into the status: what is set stays, and readiness follows the driver.
func groupStatusOf(
	c *groupv1.VolumeGroupSnapshotContent, a GroupAnswer, now time.Time,
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

// groupFailed returns the write of an error into the status; none when it is there already (SN-A6).
func groupFailed(c *groupv1.VolumeGroupSnapshotContent, message string, now time.Time) []ContentAction {
	if c.Status != nil && HasMessage(c.Status.Error, message) {
		return nil
	}
	status := &groupv1.VolumeGroupSnapshotContentStatus{}
	if c.Status != nil {
		status = c.Status.DeepCopy()
	}
	status.ReadyToUse = new(false)
	status.Error = NewStatusError(message, now)
	return []ContentAction{GroupWriteContentStatus{status}}
}
