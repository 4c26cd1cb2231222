package loopfile

import (
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// slow remembers which volumes in use could not be copied before their pods had
// to go on. The caller asks for the copy again and again, and the pods would
// wait each time for nothing.
type slow struct {
	mu     sync.Mutex
	failed map[backend.ID]time.Time
}

// slowFor is how long such a volume is not tried again.
const slowFor = time.Hour

func (s *slow) remember(all []copying) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		if c.mounted != nil {
			s.failed[c.volume] = time.Now()
		}
	}
}

func (s *slow) refuse(all []copying) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range all {
		at, failed := s.failed[c.volume]
		if !failed || c.mounted == nil {
			continue
		}
		if since := time.Since(at); since < slowFor {
			return fault.InUse.Errorf(
				"volume %q is in use, and to copy it took longer than its pods may be kept waiting when it was tried %s ago; unstage it first, keep the volumes on xfs or btrfs, which copy in milliseconds, or try again in %s",
				c.volume,
				since.Round(time.Second),
				(slowFor - since).Round(time.Second),
			)
		}
		delete(s.failed, c.volume)
	}
	return nil
}
