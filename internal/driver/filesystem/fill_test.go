package filesystem

import (
	"reflect"
	"testing"
)

func TestBeforeMount(t *testing.T) {
	const mebi = 1 << 20
	grow := Work(GrowUnmounted)
	if MayGrowMounted(Ext4) {
		grow = nil
	}
	ext := func(bytes int64) Content { return Content{Type: Ext4, Bytes: bytes, BlockBytes: 4096} }
	faulty := ext(64 * mebi)
	faulty.Faulty = true
	tests := []struct {
		why   string
		is    Content
		bytes int64
		want  Work
	}{
		{"as large as its device", ext(64 * mebi), 64 * mebi, nil},
		{"the rest is too little for a group of blocks", ext(64 * mebi), 64*mebi + 2047*4096, nil},
		{"a larger device", ext(64 * mebi), 64*mebi + 2048*4096, grow},
		{"damaged", faulty, 64 * mebi, Check},
		{"xfs grows while it is mounted", Content{Type: XFS, Bytes: 300 * mebi, BlockBytes: 4096}, 900 * mebi, nil},
		{"btrfs too", Content{Type: Btrfs, Bytes: 300 * mebi, BlockBytes: 4096}, 900 * mebi, nil},
		{"nothing there", Content{}, 64 * mebi, nil},
	}
	for _, test := range tests {
		got := BeforeMount(test.is, test.bytes)
		if reflect.ValueOf(got).Pointer() != reflect.ValueOf(test.want).Pointer() {
			t.Errorf("%s: another work than wanted", test.why)
		}
	}
}
