package explain

import (
	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	resizing "github.com/purser-csi/purser/internal/resize/rules"

	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
)

// Gatherer gathers the inputs of the controllers' decisions, as fresh processes would. unread are
// the kinds that a decision needs and that the input does not have.
//
//nolint:interfacebloat // one method for each decision
type Gatherer interface {
	Binding(binding.Key) (s binding.Snapshot, unread []Kind, err error)
	Provisioning(provision.Key, provision.Driver, provision.Options) (s provision.Snapshot, unread []Kind, err error)
	Reclaim(volume string, driver reclaim.Driver) (s reclaim.Snapshot, unread []Kind, err error)
	Resizing(objects.ClaimKey, resizing.Driver) (s resizing.Snapshot, unread []Kind, err error)
	Modification(objects.ClaimKey, resizing.AttributesDriver) (s resizing.AttributesSnapshot, unread []Kind, err error)
	Attachment(attachment.Key) (s attachment.Snapshot, unread []Kind, err error)
	Publishing(*storagev1.VolumeAttachment, publishing.Driver) (s publishing.Snapshot, unread []Kind, err error)
	Snapshot(types.NamespacedName) (s snapshotting.Snapshot, unread []Kind, err error)
	Content(
		*snapshotv1.VolumeSnapshotContent, snapshotting.ContentSettings,
	) (s snapshotting.ContentSnapshot, unread []Kind, err error)
	Group(types.NamespacedName) (s snapshotting.Group, unread []Kind, err error)
	GroupContent(
		*groupv1.VolumeGroupSnapshotContent, snapshotting.ContentSettings,
	) (s snapshotting.GroupContent, unread []Kind, err error)
}
