package attacher

import (
	"context"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
)

// Comparison says how attachments are compared with what the driver lists (AT-F5, AT-F6).
type Comparison struct {
	Pause   time.Duration // from the end of one comparison to the next; 0 for no comparison
	Entries int32         // volumes on one page; 0 leaves it to the driver
}

// comparer compares attachments with what the driver lists, on the leader only (AT-L1 to AT-L9).
type comparer struct{ *Controller }

// Start implements manager.Runnable.
func (c comparer) Start(ctx context.Context) error {
	for {
		if err := c.compare(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).
				Info("attachments could not be compared with what the driver lists", "problem", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(c.Compare.Pause):
		}
	}
}

// compare lists the volumes of the driver, and has each attachment that differs worked on again. An
// attachment that changes while the driver lists is left to the next comparison: the list may be
// older than the change (AT-L8).
func (c *Controller) compare(ctx context.Context) error {
	before, err := c.versions(ctx)
	if err != nil {
		return err
	}
	volumes := map[string]publishing.Listed{}
	listing := csirpc.Listing{Timeout: c.Timeout, Entries: c.Compare.Entries}
	err = c.caller.ListVolumes(ctx, c.CSI, listing, func(entry *csi.ListVolumesResponse_Entry) {
		if id := entry.GetVolume().GetVolumeId(); id != "" {
			volumes[id] = publishing.Listed{
				Nodes: entry.GetStatus().GetPublishedNodeIds(), Silent: entry.GetStatus() == nil,
			}
		}
	})
	if err != nil {
		return err
	}
	for name, version := range before {
		if err := c.compareOne(ctx, name, version, volumes); err != nil {
			return err
		}
	}
	return nil
}

// compareOne compares an attachment that had a resourceVersion before the driver listed the volumes.
func (c *Controller) compareOne(
	ctx context.Context, name, version string, volumes map[string]publishing.Listed,
) error {
	va, err := c.unchanged(ctx, name, version)
	if err != nil || va == nil {
		return err
	}
	s, err := Gather(ctx, c.Cached, va, c.Driver)
	if err != nil {
		return err
	}
	differs := publishing.Differs(s, volumes)
	c.memory.setMismatch(va.UID, differs)
	if !differs {
		return nil
	}
	// An attach that ended since the object was read has taken back an older mark, not this one.
	if still, err := c.unchanged(ctx, name, version); err != nil || still == nil {
		c.memory.setMismatch(va.UID, false)
		return err
	}
	logr.FromContextOrDiscard(ctx).Info("the driver lists the volume otherwise than the VolumeAttachment says",
		"attachment", name, "attached", va.Status.Attached)
	c.memory.enqueue(name)
	return nil
}

// unchanged reads an attachment; nil if its resourceVersion has changed.
func (c *Controller) unchanged(ctx context.Context, name, version string) (*storagev1.VolumeAttachment, error) {
	va, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
	if err != nil || va == nil || va.ResourceVersion != version {
		return nil, err
	}
	return va, nil
}

// versions returns the resourceVersion of each attachment of the driver by its name.
func (c *Controller) versions(ctx context.Context) (map[string]string, error) {
	var list storagev1.VolumeAttachmentList
	if err := c.Cached.List(ctx, &list); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for i := range list.Items {
		if va := &list.Items[i]; va.Spec.Attacher == c.Driver.Name {
			all[va.Name] = va.ResourceVersion
		}
	}
	return all, nil
}
