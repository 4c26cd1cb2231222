package loopfile

import (
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

func TestTheSizeOfWhatGrows(t *testing.T) {
	const least = 256 * mebi
	tests := []struct {
		why   string
		wish  backend.Range
		holds filesystem.Type
		want  int64 // 0 is out of range
	}{
		{"ext4 grows to anything", backend.Range{Required: 192 * mebi}, filesystem.Ext4, 192 * mebi},
		{"an empty image gets a filesystem of any size later", backend.Range{Required: 192 * mebi}, filesystem.Nothing, 192 * mebi},
		{"btrfs that stays as it is", backend.Range{Required: 128 * mebi, Limit: 128 * mebi}, filesystem.Btrfs, 128 * mebi},
		{"btrfs that grows a little grows enough", backend.Range{Required: 192 * mebi}, filesystem.Btrfs, least},
		{"up to the limit", backend.Range{Required: 192 * mebi, Limit: least}, filesystem.Btrfs, least},
		{"and not beyond it", backend.Range{Required: 192 * mebi, Limit: least - 1}, filesystem.Btrfs, 0},
		{"btrfs that grows much", backend.Range{Required: 2 * least}, filesystem.Btrfs, 2 * least},
	}
	for _, test := range tests {
		got, err := whenGrown(test.wish, test.holds, 128*mebi)
		if test.want == 0 && !fault.OutOfRange.Is(err) {
			t.Errorf("%s: %+v, %v, want out of range", test.why, got, err)
		}
		if test.want != 0 && (err != nil || got.Required != test.want) {
			t.Errorf("%s: %+v, %v, want %d", test.why, got, err, test.want)
		}
	}
}

// The kernel does not grow a btrfs to less than 256 MiB: a copy, and a volume,
// get more than they asked for instead of a filesystem that stays behind.
func TestASmallBtrfsGrowsEnough(t *testing.T) {
	mayMake(t, filesystem.Btrfs)
	r := newRig(t)
	c := mountOf(filesystem.Btrfs)
	v := r.create(request("vol", c, 128*mebi))
	write(t, r.stage(v.ID, c), "file", some)
	clone := request("clone", c, 192*mebi)
	clone.Source.Volume = v.ID
	copied := r.create(clone)
	at := r.stage(copied.ID, c)
	if got := r.size(copied.ID, at); copied.CapacityBytes != 256*mebi || got != copied.CapacityBytes {
		t.Errorf("the copy has %d bytes and shows %d", copied.CapacityBytes, got)
	}
	wantContent(t, at, "file", some)
	e, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 130 * mebi})
	if err != nil || e.CapacityBytes != 256*mebi {
		t.Errorf("Expand = %+v, %v", e, err)
	}
	if _, err := r.Expand(t.Context(), v.ID, backend.Range{Required: 130 * mebi, Limit: 200 * mebi}); !fault.OutOfRange.Is(err) {
		t.Errorf("Expand under a limit: %v, want out of range", err)
	}
}
