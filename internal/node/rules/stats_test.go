package mounting

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// 5.11: bytes and inodes, in any order, and nothing of other units.
func TestStatsOf(t *testing.T) {
	bytes := &csi.VolumeUsage{Unit: csi.VolumeUsage_BYTES, Total: 10, Available: 7, Used: 3}
	inodes := &csi.VolumeUsage{Unit: csi.VolumeUsage_INODES, Total: 5, Available: 1, Used: 4}
	for row, tc := range map[string]struct {
		usage []*csi.VolumeUsage
		want  Stats
	}{
		"nothing": {nil, Stats{}},
		"bytes":   {[]*csi.VolumeUsage{bytes}, Stats{Capacity: 10, Available: 7, Used: 3}},
		"both": {
			[]*csi.VolumeUsage{inodes, bytes},
			Stats{Capacity: 10, Available: 7, Used: 3, Inodes: 5, InodesAvailable: 1, InodesUsed: 4},
		},
		"a unit that is not known": {[]*csi.VolumeUsage{{Unit: 9, Total: 1}, bytes, nil}, Stats{Capacity: 10, Available: 7, Used: 3}},
	} {
		if got := StatsOf(&csi.NodeGetVolumeStatsResponse{Usage: tc.usage}); got != tc.want {
			t.Errorf("%s: %+v, want %+v", row, got, tc.want)
		}
	}
}
