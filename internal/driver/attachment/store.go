package attachment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// Store holds the attachments of all volumes. Its methods may be called
// concurrently, but the caller must have claimed the volume that it changes.
type Store struct {
	dir string
	mu  sync.Mutex
	// attached and damaged are by volume; no volume is in both.
	attached map[backend.ID][]Attachment
	damaged  map[backend.ID]error
}

// NewStore makes an empty store of a folder that holds the records and nothing
// else; Recover fills it.
func NewStore(dir string) *Store {
	return &Store{dir: dir, attached: map[backend.ID][]Attachment{}, damaged: map[backend.ID]error{}}
}

// Recover reads the records of the process before.
func (s *Store) Recover(ctx context.Context) error {
	return records.Folder{Dir: s.dir, What: "attachments"}.EachVolume(func(volume backend.ID, path string) error {
		return s.load(ctx, volume, path)
	})
}

// load reads one record.
func (s *Store) load(ctx context.Context, volume backend.ID, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read an attachment: %w", err)
	}
	attachments, err := decode(content, volume)
	if err != nil {
		logr.FromContextOrDiscard(ctx).
			Error(err, "An attachment record is damaged: its volume counts as attached", "path", path)
		s.damaged[volume] = err
		return nil
	}
	s.attached[volume] = attachments
	return nil
}

// Of returns the attachments of a volume, in no order. It refuses to answer
// when the record is damaged: "not attached" could give the volume to a second
// node.
func (s *Store) Of(volume backend.ID) ([]Attachment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cause, damaged := s.damaged[volume]; damaged {
		return nil, fault.Internal.Errorf("cannot tell where volume %q is attached: %s is damaged: %w; "+
			"detach the volume from all nodes (an empty node_id), or stop the driver and remove the file when no node uses the volume",
			volume, filepath.Join(s.dir, records.Name(volume)), cause)
	}
	return slices.Clone(s.attached[volume]), nil
}

// CountOn returns the number of volumes that are attached to a node.
func (s *Store) CountOn(node string) (count int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, attachments := range s.attached {
		if slices.ContainsFunc(attachments, func(a Attachment) bool { return a.Node == node }) {
			count++
		}
	}
	return count
}

// Add records one more attachment of a volume.
func (s *Store) Add(volume backend.ID, a Attachment) error {
	have, err := s.Of(volume)
	if err != nil {
		return err
	}
	return s.put(volume, append(have, a))
}

// Remove forgets the attachment of a volume to a node; an empty node stands
// for all of them, and also clears a damaged record. An attachment that is not
// there is no error.
func (s *Store) Remove(volume backend.ID, node string) error {
	if node == "" {
		return s.put(volume, nil)
	}
	have, err := s.Of(volume)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(have), func(a Attachment) bool { return a.Node == node })
	if len(rest) == len(have) {
		return nil
	}
	return s.put(volume, rest)
}

func (s *Store) put(volume backend.ID, attachments []Attachment) error {
	path := filepath.Join(s.dir, records.Name(volume))
	if len(attachments) == 0 {
		if err := durable.Remove(path); err != nil {
			return fault.Internal.Errorf("forget the attachments of volume %q: %w", volume, err)
		}
	} else {
		content, err := encode(volume, attachments)
		if err == nil {
			err = durable.WriteFile(path, s.dir, content)
		}
		if err != nil {
			return fault.Internal.Errorf("record an attachment of volume %q: %w", volume, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.damaged, volume)
	if len(attachments) == 0 {
		delete(s.attached, volume)
		return nil
	}
	s.attached[volume] = attachments
	return nil
}
