package snapshotting

import (
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// GroupContentSettings are what the sidecar's decisions depend on besides the objects.
type GroupContentSettings struct {
	Driver        string
	Naming        Naming
	ExtraMetadata bool // --extra-create-metadata
}

// Content is the world around one VolumeGroupSnapshotContent.
type Content struct {
	GroupContentSettings
	Content   *groupv1.VolumeGroupSnapshotContent // nil: it does not exist
	Class     *groupv1.VolumeGroupSnapshotClass   // that the content names; nil: the cache does not have it
	NotBefore time.Time                           // when the next attempt after a failure is due
	// when the driver last said that the group is not ready; zero for never
	Asked time.Time
	// Sharing has the contents that may name the group or one of its snapshots, read live; nil before
	// they are read.
	Sharing *Sharing
}

// Sharing are the other contents of the driver that name a group or one of its snapshots.
type Sharing struct {
	Groups   []*groupv1.VolumeGroupSnapshotContent
	Contents []*snapshotv1.VolumeSnapshotContent
}

type (
	// CreateGroup asks the driver. What follows is for [GroupAfterCreate] to say.
	CreateGroup struct {
		Name       string
		Sources    []string
		Parameters map[string]string
		Secret     types.NamespacedName // zero for none
		// Mark says that the content lacks the annotation volumegroupsnapshot-being-created. It is
		// written when nothing but the driver can refuse the call any more (SN-N9).
		Mark bool
	}
	// FindGroup asks the driver with GetVolumeGroupSnapshot. What follows is for [GroupAfterFind] to say.
	FindGroup struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// ListSharing lists the contents live. [GroupAfterList] says what follows.
	ListSharing struct{}
	// DeleteGroup asks the driver. What follows is for [GroupAfterDelete] to say.
	DeleteGroup struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// GroupWriteContentStatus replaces the status.
	GroupWriteContentStatus struct {
		Status *groupv1.VolumeGroupSnapshotContentStatus
	}
)

func (CreateGroup) contentAction()             {}
func (FindGroup) contentAction()               {}
func (ListSharing) contentAction()             {}
func (DeleteGroup) contentAction()             {}
func (GroupWriteContentStatus) contentAction() {}

// GroupAnswer is what a driver says of one group. An answer without a group has the zero value.
type GroupAnswer struct {
	Handle    string
	Ready     bool
	Created   time.Time // zero when the driver does not say
	Snapshots []groupv1.VolumeSnapshotInfo
}

// IsPending reports whether the driver has the group and is still processing it.
func (a GroupAnswer) IsPending() bool { return a.Handle != "" && !a.Ready }

// groupDeletionSecret is the secret for CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot, which
// the snapshot-controller wrote down (SN-N10).
func groupDeletionSecret(c *groupv1.VolumeGroupSnapshotContent) types.NamespacedName {
	return types.NamespacedName{
		Namespace: c.Annotations[names.AnnGroupDeletionSecretNamespace],
		Name:      c.Annotations[names.AnnGroupDeletionSecretName],
	}
}

// snapshotHandles are those of the members: as the driver listed them, else as the content was
// given them (SN-G5).
func snapshotHandles(c *groupv1.VolumeGroupSnapshotContent) (handles []string) {
	if c.Status != nil {
		for _, info := range c.Status.VolumeSnapshotInfoList {
			handles = append(handles, info.SnapshotHandle)
		}
	}
	if given := c.Spec.Source.GroupSnapshotHandles; len(handles) == 0 && given != nil {
		return given.VolumeSnapshotHandles
	}
	return handles
}
