package publishing

import (
	"slices"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
)

// Listed is what the driver lists of one volume. The zero value is a volume that it does not list,
// which is published nowhere.
type Listed struct {
	Nodes []string // ids of the nodes that the volume is published to
	// Silent says that the entry has no status, so that it is not known where the volume is. Upstream
	// takes it as published nowhere and publishes the volume again each minute (AT-L2, AT-H5).
	Silent bool
}

// Differs reports whether the driver lists the volume of an attachment otherwise than the status of
// the attachment says (AT-L3, AT-L4). volumes are by handle.
func Differs(s Snapshot, volumes map[string]Listed) bool {
	if s.Attachment == nil || s.Attachment.Spec.Attacher != s.Driver.Name {
		return false
	}
	handle, node := publishedAs(s)
	if handle == "" || node == "" {
		return false
	}
	listed := volumes[objects.Handle(s.Driver.Name, handle, node)]
	return !listed.Silent && s.Attachment.Status.Attached != slices.Contains(listed.Nodes, node)
}

// publishedAs returns the handle and the node id of an attachment: those that were written before
// the attach. Those of an attachment that upstream's attacher made are taken from the
// PersistentVolume and the CSINode (AT-D1, AT-D4). Either is empty if it is not known.
func publishedAs(s Snapshot) (handle, node string) {
	handle, node = s.Attachment.Annotations[names.AnnVolumeHandle], s.Attachment.Annotations[names.AnnAttachedNodeID]
	if handle == "" && s.Volume != nil && s.Volume.Spec.CSI != nil {
		handle = s.Volume.Spec.CSI.VolumeHandle
	}
	if node == "" && s.Node != nil {
		node, _ = registeredID(s)
	}
	return handle, node
}
