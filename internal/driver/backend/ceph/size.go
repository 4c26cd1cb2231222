package ceph

import (
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

const (
	mebi = 1 << 20
	// defaultBytes is the size of a volume for which none is asked.
	defaultBytes = 1 << 30
)

// chooseSize gives the size of a volume for a request: whole MiB, which every
// program understands alike.
func chooseSize(size backend.Range, least int64) (int64, error) {
	bytes := size.Required
	if bytes == 0 {
		bytes = defaultBytes
		if size.Limit > 0 {
			bytes = min(bytes, size.Limit/mebi*mebi)
		}
	}
	bytes = max(bytes, least)
	bytes = (bytes + mebi - 1) / mebi * mebi
	switch {
	case bytes <= 0:
		return 0, fault.OutOfRange.Errorf(
			"capacity_range: volumes have whole MiB, and none fits between %d and %d bytes",
			size.Required,
			size.Limit,
		)
	case size.Limit > 0 && bytes > size.Limit:
		return 0, fault.OutOfRange.Errorf(
			"capacity_range.limit_bytes %d: the volume would have %d bytes (whole MiB, and no less than its filesystem or source needs)",
			size.Limit,
			bytes,
		)
	default:
		return bytes, nil
	}
}

// leastFor returns the smallest image that mkfs accepts on the node for the
// capabilities of a request; 0 for CephFS and raw block. A request for less is
// raised to it, unless its limit forbids that.
func leastFor(kind handle.Kind, r backend.Request) (int64, error) {
	var least int64
	for _, c := range r.Capabilities {
		if kind == handle.CephFS || c.Type != backend.Mount {
			continue
		}
		t, err := filesystem.Parse(c.FSType)
		if err != nil {
			return 0, err
		}
		if t == filesystem.Nothing {
			t = filesystem.Default
		}
		least = max(least, t.Minimum())
	}
	return least, nil
}
