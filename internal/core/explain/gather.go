package explain

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/attachment"
	"github.com/purser-csi/purser/internal/core/attributes"
	"github.com/purser-csi/purser/internal/core/binding"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/publishing"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/core/resizing"
	"github.com/purser-csi/purser/internal/core/snapshotting"
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
	Modification(objects.ClaimKey, attributes.Driver) (s attributes.Snapshot, unread []Kind, err error)
	Attachment(attachment.Key) (s attachment.Snapshot, unread []Kind, err error)
	Publishing(*storagev1.VolumeAttachment, publishing.Driver) (s publishing.Snapshot, unread []Kind, err error)
	Snapshot(types.NamespacedName) (s snapshotting.Snapshot, unread []Kind, err error)
	Content(
		*snapshotv1.VolumeSnapshotContent, snapshotting.ContentSettings,
	) (s snapshotting.ContentSnapshot, unread []Kind, err error)
}
