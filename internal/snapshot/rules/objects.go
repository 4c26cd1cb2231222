package snapshotting

import (
	"cmp"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
)

type (
	// Requests are the objects by which users request snapshots.
	Requests interface {
		*snapshotv1.VolumeSnapshot | *groupv1.VolumeGroupSnapshot
	}
	// Contents are the objects that stand for the snapshots of a driver.
	Contents interface {
		*snapshotv1.VolumeSnapshotContent | *groupv1.VolumeGroupSnapshotContent
	}
	// Classes are the classes of snapshots.
	Classes interface {
		*snapshotv1.VolumeSnapshotClass | *groupv1.VolumeGroupSnapshotClass
	}
)

// requestView is a VolumeSnapshot or VolumeGroupSnapshot as the rules for both read it.
type requestView struct {
	*metav1.ObjectMeta
	k              *kind
	class, content *string // that the spec names
	claim          string  // that a VolumeSnapshot is taken of
	selector       error   // why a selector selects nothing
	dynamic        bool    // it is taken of what the spec selects
	member         bool    // of the group of this name, which may be unknown
	group          string
	status         Status
}

// contentView is the content of either kind as the rules for both read it.
type contentView struct {
	*metav1.ObjectMeta
	k         *kind
	driver    string
	policy    snapshotv1.DeletionPolicy
	ref       corev1.ObjectReference
	class     *string
	volumes   []string // handles of the sources
	given     bool     // it is pre-provisioned
	handle    string   // empty while it is not known
	member    bool     // the snapshot belongs to a group
	snapshots []string // handles of the members of a group
	bare      bool     // it has no status
	status    ContentStatus
}

// classView is the class of either kind as the rules for both read it.
type classView struct {
	*metav1.ObjectMeta
	driver     string
	policy     snapshotv1.DeletionPolicy
	parameters map[string]string
}

// Status is what the statuses of VolumeSnapshots and VolumeGroupSnapshots have in common, and the
// size of a VolumeSnapshot.
type Status struct {
	Content *string // the name of the content that the object is bound to
	Created *metav1.Time
	Ready   *bool
	Size    *resource.Quantity
	Error   *snapshotv1.VolumeSnapshotError
}

// ContentStatus is what the statuses of contents have in common, the size of a snapshot, and the
// members of a group.
type ContentStatus struct {
	Handle    *string
	Created   *metav1.Time
	Ready     *bool
	Size      *int64
	Snapshots []groupv1.VolumeSnapshotInfo
	Error     *snapshotv1.VolumeSnapshotError
}

// kindOf returns the kind of an object or of a content.
func kindOf(object any) *kind {
	switch object.(type) {
	case *groupv1.VolumeGroupSnapshot, *groupv1.VolumeGroupSnapshotContent:
		return &group
	}
	return &single
}

func requestOf[O Requests](object O) *requestView {
	if object == nil {
		return nil
	}
	switch o := any(object).(type) {
	case *snapshotv1.VolumeSnapshot:
		return &requestView{
			ObjectMeta: &o.ObjectMeta, k: &single, class: o.Spec.VolumeSnapshotClassName,
			content: o.Spec.Source.VolumeSnapshotContentName, claim: SourceClaim(o),
			dynamic: SourceClaim(o) != "",
			member:  isGroupMember(o), group: GroupOf(o), status: StatusOf(o),
		}
	case *groupv1.VolumeGroupSnapshot:
		_, problem := Selector(o)
		return &requestView{
			ObjectMeta: &o.ObjectMeta, k: &group, class: o.Spec.VolumeGroupSnapshotClassName,
			content: o.Spec.Source.VolumeGroupSnapshotContentName, selector: problem,
			dynamic: o.Spec.Source.Selector != nil, status: StatusOf(o),
		}
	}
	return nil
}

func contentOf[C Contents](object C) *contentView {
	if object == nil {
		return nil
	}
	c := &contentView{
		k: kindOf(object), ref: *RefOf(object), class: *ClassNameOf(object), status: contentStatusOf(object),
	}
	switch o := any(object).(type) {
	case *snapshotv1.VolumeSnapshotContent:
		c.ObjectMeta, c.driver, c.policy = &o.ObjectMeta, o.Spec.Driver, o.Spec.DeletionPolicy
		c.bare = o.Status == nil
		c.given, c.handle = o.Spec.Source.SnapshotHandle != nil, ptr.Deref(o.Spec.Source.SnapshotHandle, "")
		if o.Spec.Source.VolumeHandle != nil {
			c.volumes = []string{*o.Spec.Source.VolumeHandle}
		}
		c.member = has(o.Annotations, names.AnnGroupSnapshotHandle) ||
			o.Status != nil && o.Status.VolumeGroupSnapshotHandle != nil
	case *groupv1.VolumeGroupSnapshotContent:
		c.ObjectMeta, c.driver, c.policy = &o.ObjectMeta, o.Spec.Driver, o.Spec.DeletionPolicy
		c.volumes = o.Spec.Source.VolumeHandles
		for _, info := range c.status.Snapshots {
			c.snapshots = append(c.snapshots, info.SnapshotHandle)
		}
		if given := o.Spec.Source.GroupSnapshotHandles; given != nil {
			c.given, c.handle = true, given.VolumeGroupSnapshotHandle
			if len(c.snapshots) == 0 { // SN-G5
				c.snapshots = given.VolumeSnapshotHandles
			}
		}
	}
	c.handle = ptr.Deref(c.status.Handle, c.handle)
	return c
}

func classOf[L Classes](object L) *classView {
	if object == nil {
		return nil
	}
	switch o := any(object).(type) {
	case *snapshotv1.VolumeSnapshotClass:
		return &classView{&o.ObjectMeta, o.Driver, o.DeletionPolicy, o.Parameters}
	case *groupv1.VolumeGroupSnapshotClass:
		return &classView{&o.ObjectMeta, o.Driver, o.DeletionPolicy, o.Parameters}
	}
	return nil
}

// eachOf returns the objects of a list as the rules read them.
func eachOf[T, V any](all []T, of func(T) V) (views []V) {
	for _, one := range all {
		views = append(views, of(one))
	}
	return views
}

// RefOf returns the reference of a content to its VolumeSnapshot or VolumeGroupSnapshot.
func RefOf(object any) *corev1.ObjectReference {
	switch o := object.(type) {
	case *snapshotv1.VolumeSnapshotContent:
		return &o.Spec.VolumeSnapshotRef
	case *groupv1.VolumeGroupSnapshotContent:
		return &o.Spec.VolumeGroupSnapshotRef
	}
	return &corev1.ObjectReference{}
}

// ClassNameOf returns the field with the class of an object of either kind, or of its content.
func ClassNameOf(object any) **string {
	switch o := object.(type) {
	case *snapshotv1.VolumeSnapshot:
		return &o.Spec.VolumeSnapshotClassName
	case *groupv1.VolumeGroupSnapshot:
		return &o.Spec.VolumeGroupSnapshotClassName
	case *snapshotv1.VolumeSnapshotContent:
		return &o.Spec.VolumeSnapshotClassName
	case *groupv1.VolumeGroupSnapshotContent:
		return &o.Spec.VolumeGroupSnapshotClassName
	}
	return new(*string)
}

// StatusOf returns the status of an object of either kind.
func StatusOf[O Requests](object O) Status {
	switch o := any(object).(type) {
	case *snapshotv1.VolumeSnapshot:
		if s := o.Status; s != nil {
			return Status{s.BoundVolumeSnapshotContentName, s.CreationTime, s.ReadyToUse, s.RestoreSize, s.Error}
		}
	case *groupv1.VolumeGroupSnapshot:
		if s := o.Status; s != nil {
			return Status{s.BoundVolumeGroupSnapshotContentName, s.CreationTime, s.ReadyToUse, nil, s.Error}
		}
	}
	return Status{}
}

// SetOn puts a copy of the status into an object of either kind.
func (s Status) SetOn(object any) {
	switch o := object.(type) {
	case *snapshotv1.VolumeSnapshot:
		o.Status = cmp.Or(o.Status, &snapshotv1.VolumeSnapshotStatus{})
		o.Status.BoundVolumeSnapshotContentName, o.Status.CreationTime = s.Content, s.Created
		o.Status.ReadyToUse, o.Status.RestoreSize, o.Status.Error = s.Ready, s.Size, s.Error
		o.Status = o.Status.DeepCopy()
	case *groupv1.VolumeGroupSnapshot:
		o.Status = cmp.Or(o.Status, &groupv1.VolumeGroupSnapshotStatus{})
		o.Status.BoundVolumeGroupSnapshotContentName, o.Status.CreationTime = s.Content, s.Created
		o.Status.ReadyToUse, o.Status.Error = s.Ready, s.Error
		o.Status = o.Status.DeepCopy()
	}
}

func contentStatusOf[C Contents](object C) ContentStatus {
	switch o := any(object).(type) {
	case *snapshotv1.VolumeSnapshotContent:
		if s := o.Status; s != nil {
			var created *metav1.Time
			if s.CreationTime != nil {
				created = new(metav1.NewTime(time.Unix(0, *s.CreationTime)))
			}
			return ContentStatus{s.SnapshotHandle, created, s.ReadyToUse, s.RestoreSize, nil, s.Error}
		}
	case *groupv1.VolumeGroupSnapshotContent:
		if s := o.Status; s != nil {
			return ContentStatus{
				s.VolumeGroupSnapshotHandle, s.CreationTime, s.ReadyToUse, nil, s.VolumeSnapshotInfoList, s.Error,
			}
		}
	}
	return ContentStatus{}
}

// SetOn puts a copy of the status into a content of either kind.
func (s ContentStatus) SetOn(object any) {
	switch o := object.(type) {
	case *snapshotv1.VolumeSnapshotContent:
		o.Status = cmp.Or(o.Status, &snapshotv1.VolumeSnapshotContentStatus{})
		o.Status.SnapshotHandle, o.Status.ReadyToUse = s.Handle, s.Ready
		o.Status.RestoreSize, o.Status.Error = s.Size, s.Error
		if s.Created != nil {
			o.Status.CreationTime = new(s.Created.UnixNano())
		}
		o.Status = o.Status.DeepCopy()
	case *groupv1.VolumeGroupSnapshotContent:
		o.Status = cmp.Or(o.Status, &groupv1.VolumeGroupSnapshotContentStatus{})
		o.Status.VolumeGroupSnapshotHandle, o.Status.CreationTime = s.Handle, s.Created
		o.Status.ReadyToUse, o.Status.VolumeSnapshotInfoList, o.Status.Error = s.Ready, s.Snapshots, s.Error
		o.Status = o.Status.DeepCopy()
	}
}

// isSame compares what the API server keeps: times in whole seconds, and values rather than pointers
// (SN-H3). The time of an error is when its message was first seen.
func (s Status) isSame(other Status) bool {
	return (s.Created == nil) == (other.Created == nil) &&
		(s.Created == nil || s.Created.Unix() == other.Created.Unix()) &&
		(s.Size == nil) == (other.Size == nil) && (s.Size == nil || size.Compare(*s.Size, *other.Size) == 0) &&
		(s.Error == nil) == (other.Error == nil) && (s.Error == nil ||
		hasMessage(s.Error, ptr.Deref(other.Error.Message, ""))) &&
		(s.Ready == nil) == (other.Ready == nil) && ptr.Deref(s.Ready, false) == ptr.Deref(other.Ready, false) &&
		ptr.Deref(s.Content, "") == ptr.Deref(other.Content, "")
}

// newStatusError returns an error as statuses hold it.
func newStatusError(message string, now time.Time) *snapshotv1.VolumeSnapshotError {
	return &snapshotv1.VolumeSnapshotError{Time: new(metav1.NewTime(now)), Message: new(message)}
}

// hasMessage reports whether a status has an error with this message already (SN-A6).
func hasMessage(e *snapshotv1.VolumeSnapshotError, message string) bool {
	return e != nil && ptr.Deref(e.Message, "") == message
}
