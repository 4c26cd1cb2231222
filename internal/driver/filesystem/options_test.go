package filesystem

import (
	"slices"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// Row 25: an option that reaches outside the volume or stops the machine is refused, by its name and
// with what is allowed, and without its value.
func TestMountOptionsByAllowlist(t *testing.T) {
	const context = `context="system_u:object_r:container_file_t:s0:c1,c2"`
	tests := []struct {
		on      Type
		option  string
		refused string // part of the error; empty for an option that is allowed
	}{
		{Ext4, "noatime", ""},
		{Ext4, "errors=continue", ""},
		{Ext4, "data=writeback", ""},
		{Ext4, "commit=30,nodelalloc", ""},
		{Ext4, context, ""},
		{XFS, context, ""},
		{XFS, "allocsize=1m", ""},
		{Btrfs, "compress=zstd:3", ""},
		{Nothing, "compress=zstd", ""},
		{Nothing, "inode64", ""},
		{Ext4, "journal_path=/dev/secret", `option "journal_path" is not allowed on ext4`},
		{Ext4, "journal_dev=0x801", `"journal_dev"`},
		{Ext4, "errors=panic", `value of option "errors" is not allowed on ext4; allowed are continue, remount-ro`},
		{Ext4, "noatime,errors=panic", `"errors"`},
		{Ext4, "sb=8193", `"sb"`},
		{Ext4, "abort", `"abort"`},
		{Ext4, "noload", `"noload"`},
		{Ext4, "compress=zstd", `"compress"`},
		{XFS, "logdev=/dev/secret", `"logdev"`},
		{XFS, "rtdev=/dev/secret", `"rtdev"`},
		{XFS, "norecovery", `"norecovery"`},
		{Btrfs, "device=/dev/secret", `"device"`},
		{Btrfs, `compress=zlib",device=/dev/secret,compress=zlib"`, `option "compress" has a misplaced quote`},
		{Btrfs, `compress="zlib"`, `option "compress" has a misplaced quote`},
		{Btrfs, `discard",device=/dev/secret"`, "is not allowed on btrfs"},
		{Btrfs, `context=x",device=/dev/secret,context=y"`, `option "context" has a misplaced quote`},
		{Btrfs, `context="x,device=/dev/secret`, `option "context" has a misplaced quote`},
		{Ext4, `errors=continue",journal_path=/dev/secret"`, `option "errors" has a misplaced quote`},
		{Ext4, `rootcontext="u:r:t:s0:c1,c2"`, ""},
		{Btrfs, "fatal_errors=panic", `"fatal_errors"`},
		{Btrfs, "subvol=/", `"subvol"`},
		{Btrfs, "degraded", `"degraded"`},
		{Nothing, "errors=panic", `"errors"`},
		{Nothing, "logdev=/dev/secret", `"logdev"`},
		{Nothing, "bind", `"bind"`},
		{Nothing, "remount", `"remount"`},
		{Nothing, strings.Repeat("n", 500) + "=secret", strings.Repeat("n", 128) + `"`},
	}
	for _, test := range tests {
		t.Run(string(test.on)+" "+test.option[:min(40, len(test.option))], func(t *testing.T) {
			err := CheckOptions(test.on, []string{test.option})
			switch {
			case test.refused == "" && err != nil:
				t.Error(err)
			case test.refused == "":
			case !fault.Invalid.Is(err) || !strings.Contains(err.Error(), test.refused) ||
				!strings.Contains(err.Error(), "allowed are") || strings.Contains(err.Error(), "secret"):
				t.Errorf("%v, want invalid with %q", err, test.refused)
			}
		})
	}
}

func TestSplitKeepsQuotedCommas(t *testing.T) {
	got := split([]string{`ro,context="a,b",,noatime`, "sync"})
	if want := []string{"ro", `context="a,b"`, "noatime", "sync"}; !slices.Equal(got, want) {
		t.Errorf("split = %q, want %q", got, want)
	}
}
