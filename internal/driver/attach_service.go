package driver

import (
	"context"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// reach is the set of nodes that volumes can be attached to; nil is every node.
type reach []string

// reachOf follows Attach.Nodes.
func reachOf(c Config) reach {
	switch {
	case slices.Contains(c.Attach.Nodes, anyNode):
		return nil
	case len(c.Attach.Nodes) > 0:
		return slices.Sorted(slices.Values(c.Attach.Nodes))
	default:
		return reach{c.NodeID}
	}
}

// check gives fault.NotFound for a node that cannot reach the volumes
// ("ControllerPublishVolume Errors": node does not exist).
func (r reach) check(node string) error {
	if r == nil || slices.Contains(r, node) {
		return nil
	}
	return fault.NotFound.Errorf("node_id %.256q: volumes of this driver are reached from %s only; "+
		"name the node in the driver's flag --attach-nodes if it can reach them", node, strings.Join(r, ", "))
}

// attach records that a node has the volume. Nothing else is needed: NodeStageVolume makes the
// device on the node.
func (s *controllerService) attach(ctx context.Context, r attaching) error {
	volume, err := s.get(ctx, r.volumeID)
	if err != nil {
		return err
	}
	if err := s.reach.check(r.node); err != nil {
		return err
	}
	if err := s.backend.CheckCapability(r.capability); err != nil {
		return err
	}
	have, err := s.attached.Of(volume.ID)
	if err != nil {
		return err
	}
	want := records.Attachment{Node: r.node, Type: r.capability.Type, Mode: r.capability.Mode}
	repeat, err := records.MayAttach(volume.ID, have, want)
	if err != nil || repeat {
		return err
	}
	if err := s.hasRoomOn(r.node); err != nil {
		return err
	}
	return s.attached.Add(volume.ID, want)
}

// hasRoomOn is "max volumes attached" of the errors of ControllerPublishVolume.
func (s *controllerService) hasRoomOn(node string) error {
	if s.features.limited == nil {
		return nil
	}
	limit := s.features.limited.MaxVolumesPerNode()
	if count := s.attached.CountOn(node); limit > 0 && count >= limit {
		return fault.Exhausted.Errorf(
			"node_id %.128q: %d volumes are attached to it, and %d is the limit; detach one first",
			node,
			count,
			limit,
		)
	}
	return nil
}

// detach removes the record that a node has the volume; an empty node means all nodes. A deleted
// volume, or an id that no volume can have, is not attached.
//
// The volume stays attached while this very node has it staged or published:
// a forced detach would give it to a second node while the first one writes.
func (s *controllerService) detach(ctx context.Context, volumeID, node string) error {
	id, err := backend.ParseID(volumeID)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Info("Nothing to detach: this driver makes no such ids")
		return nil
	}
	if node == "" || s.node.isNode(node) {
		if err := s.node.notInUse(ctx, id); err != nil {
			return err
		}
	}
	return s.attached.Remove(id, node)
}

// notAttached gives a fault.InUse error while the volume is attached.
func (s *controllerService) notAttached(id backend.ID) error {
	if !s.features.attaches {
		return nil
	}
	have, err := s.attached.Of(id)
	if err != nil {
		return err
	}
	if len(have) > 0 {
		return fault.InUse.Errorf(
			"volume %q is attached to %s; detach it first",
			id,
			strings.Join(records.Nodes(have), ", "),
		)
	}
	return nil
}

// attachedTo returns the nodes that a volume is attached to. A damaged record
// is logged, so that one bad file does not hide all other volumes of a list.
func (s *controllerService) attachedTo(ctx context.Context, id backend.ID) []string {
	have, err := s.attached.Of(id)
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Listing a volume without its nodes", "id", id.String())
	}
	return records.Nodes(have)
}
