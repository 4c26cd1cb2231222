package loopfile

import (
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// slow records the volumes in use whose copy exceeded the freeze timeout. The caller retries the
// copy, and each retry would block the pods in vain.
type slow struct {
	mu     sync.Mutex
	failed map[backend.ID]time.Time
}

// slowFor is how long the copy of such a volume is refused.
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
				"volume %q is in use, and to copy it took longer than its pods may be kept waiting when it was tried "+
					"%s ago; unstage it first, keep the volumes on xfs or btrfs, which copy in milliseconds, or try "+
					"again in %s",
				c.volume,
				since.Round(time.Second),
				(slowFor - since).Round(time.Second),
			)
		}
		delete(s.failed, c.volume)
	}
	return nil
}
