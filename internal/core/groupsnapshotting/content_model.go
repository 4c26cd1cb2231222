package groupsnapshotting

import (
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// ContentVerdict is what [DecideContent] answers.
type ContentVerdict = verdict.Verdict[ContentAction]

// ContentSettings are what the sidecar's decisions depend on besides the objects.
type ContentSettings struct {
	Driver        string
	Naming        snapshotting.Naming
	ExtraMetadata bool // --extra-create-metadata
}

// Content is the world around one VolumeGroupSnapshotContent.
type Content struct {
	ContentSettings
	Content   *groupv1.VolumeGroupSnapshotContent // nil: it does not exist
	Class     *groupv1.VolumeGroupSnapshotClass   // that the content names; nil: the cache does not have it
	NotBefore time.Time                           // when the next attempt after a failure is due
	Asked     time.Time                           // when the driver last said that the group is not ready; zero for never
}

// ContentAction is one thing to do. The interface is sealed.
//
//sumtype:decl
type ContentAction interface{ contentAction() }

type (
	// MarkCreating sets the annotation volumegroupsnapshot-being-created, before the driver is asked
	// (SN-N9).
	MarkCreating struct{}
	// ClearCreating removes it, once the outcome is known.
	ClearCreating struct{}
	// CreateGroup asks the driver. What follows is for [AfterCreate] to say.
	CreateGroup struct {
		Name       string
		Sources    []string
		Parameters map[string]string
		Secret     types.NamespacedName // zero for none
	}
	// FindGroup asks the driver with GetVolumeGroupSnapshot. What follows is for [AfterFind] to say.
	FindGroup struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// DeleteGroup asks the driver. What follows is for [AfterDelete] to say.
	DeleteGroup struct {
		Handle    string
		Snapshots []string
		Secret    types.NamespacedName
	}
	// WriteContentStatus replaces the status.
	WriteContentStatus struct {
		Status *groupv1.VolumeGroupSnapshotContentStatus
	}
	// ReleaseContent removes the finalizer.
	ReleaseContent struct{}
)

func (MarkCreating) contentAction()       {}
func (ClearCreating) contentAction()      {}
func (CreateGroup) contentAction()        {}
func (FindGroup) contentAction()          {}
func (DeleteGroup) contentAction()        {}
func (WriteContentStatus) contentAction() {}
func (ReleaseContent) contentAction()     {}

// Answer is what a driver says of one group. An answer without a group has the zero value.
type Answer struct {
	Handle    string
	Ready     bool
	Created   time.Time // zero when the driver does not say
	Snapshots []groupv1.VolumeSnapshotInfo
}

// IsPending reports whether the driver has the group and is still processing it.
func (a Answer) IsPending() bool { return a.Handle != "" && !a.Ready }

// deletionSecret is the secret for CreateVolumeGroupSnapshot and DeleteVolumeGroupSnapshot, which
// the snapshot-controller wrote down (SN-N10).
func deletionSecret(c *groupv1.VolumeGroupSnapshotContent) types.NamespacedName {
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
