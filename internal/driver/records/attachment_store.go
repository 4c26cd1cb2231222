package records

import (
	"context"
	"slices"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/reserve"
)

// AttachmentStore holds the attachments of all volumes. Its methods may be called
// concurrently, but the caller must have claimed the volume that it changes.
type AttachmentStore struct{ store Store[attachments] }

// NewAttachmentStore makes an empty store of a folder that holds the records and nothing
// else; Recover fills it. The records may use the reserve.
func NewAttachmentStore(dir string, room *reserve.Reserve) *AttachmentStore {
	return &AttachmentStore{Store[attachments]{
		dir: dir, room: room, state: "attached",
		mend: "detach the volume from all nodes (an empty node_id), " +
			"or stop the driver and remove the file when no node uses the volume",
	}}
}

// Recover reads the records of the process before.
func (s *AttachmentStore) Recover(ctx context.Context) error { return s.store.load(ctx) }

// Of returns the attachments of a volume. It refuses to answer when the record is damaged.
func (s *AttachmentStore) Of(volume backend.ID) ([]Attachment, error) {
	have, _ := s.store.get(nameOf(volume))
	return slices.Clone(have.Nodes), s.store.damageOf(volume)
}

// CountOn returns the number of volumes that are attached to a node.
func (s *AttachmentStore) CountOn(node string) int64 {
	return int64(len(s.store.list(func(a attachments) bool {
		return slices.ContainsFunc(a.Nodes, func(a Attachment) bool { return a.Node == node })
	})))
}

// Add records one more attachment of a volume.
func (s *AttachmentStore) Add(volume backend.ID, a Attachment) error {
	have, err := s.Of(volume)
	if err != nil {
		return err
	}
	return s.store.put(attachments{volume, append(have, a)}, false)
}

// Remove forgets the attachment of a volume to a node; an empty node stands
// for all of them, and also clears a damaged record. An attachment that is not
// there is no error. It is possible in a full pool.
func (s *AttachmentStore) Remove(volume backend.ID, node string) error {
	if node == "" {
		return s.store.remove(nameOf(volume))
	}
	have, err := s.Of(volume)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(have), func(a Attachment) bool { return a.Node == node })
	switch len(rest) {
	case len(have):
		return nil
	case 0:
		return s.store.remove(nameOf(volume))
	default:
		return s.store.put(attachments{volume, rest}, true)
	}
}
