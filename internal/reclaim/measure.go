package reclaim

import (
	"time"

	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// observe counts attempts like upstream (ME-3).
func (c *Controller) observe(_ string, s reclaim.Snapshot, end next, took time.Duration) {
	if s.Volume == nil {
		return
	}
	class := s.Volume.Spec.StorageClassName
	switch end.(type) {
	case verdict.Refuse[reclaim.Action]:
		c.Deletions.Failed(class)
	case verdict.Nothing[reclaim.Action]:
		if end.Because().Reason == verdict.VolumeReclaimed {
			c.Deletions.Succeeded(took, class)
		}
	}
}
