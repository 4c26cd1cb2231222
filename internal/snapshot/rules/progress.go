package snapshotting

import (
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Progress is what the statuses of a VolumeSnapshot and of a VolumeGroupSnapshot have in common.
type Progress struct {
	Content *string // the name of the content that the object is bound to
	Created *metav1.Time
	Ready   *bool
	Error   *snapshotv1.VolumeSnapshotError
}

// IsSame compares what the API server keeps: times in whole seconds, and values rather than pointers
// (SN-H3).
func (p Progress) IsSame(other Progress) bool {
	sameTime := (p.Created == nil) == (other.Created == nil) &&
		(p.Created == nil || p.Created.Unix() == other.Created.Unix())
	return sameTime && sameError(p.Error, other.Error) &&
		(p.Ready == nil) == (other.Ready == nil) && ptr.Deref(p.Ready, false) == ptr.Deref(other.Ready, false) &&
		ptr.Deref(p.Content, "") == ptr.Deref(other.Content, "")
}

// sameError compares messages. The time of an error is when its message was first seen.
func sameError(a, b *snapshotv1.VolumeSnapshotError) bool {
	if a == nil || b == nil {
		return a == b
	}
	return ptr.Deref(a.Message, "") == ptr.Deref(b.Message, "")
}

// NewStatusError returns an error as statuses hold it.
func NewStatusError(message string, now time.Time) *snapshotv1.VolumeSnapshotError {
	return &snapshotv1.VolumeSnapshotError{Time: new(metav1.NewTime(now)), Message: new(message)}
}

// HasMessage reports whether a status has an error with this message already (SN-A6).
func HasMessage(e *snapshotv1.VolumeSnapshotError, message string) bool {
	return e != nil && ptr.Deref(e.Message, "") == message
}
