package loopfile

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

func plain(t *testing.T) *Backend {
	t.Helper()
	b, err := New(Config{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSettings(t *testing.T) {
	tests := []struct {
		why                 string
		parameters, mutable map[string]string
		want                settings
	}{
		{"thin and discarding unless said", nil, nil, settings{discard: true}},
		{"thick does not discard", map[string]string{"provisioning": "thick"}, nil, settings{thick: true}},
		{"mutable wins", map[string]string{"provisioning": "thick"}, map[string]string{"provisioning": "thin"}, settings{discard: true}},
		{"no discard", map[string]string{"discard": "false"}, nil, settings{}},
		{"a lower limit", map[string]string{"overCommit": "1.5"}, nil, settings{discard: true, overCommit: 1.5}},
		{"a class that was thin with discard turns thick", map[string]string{"discard": "false"}, map[string]string{"provisioning": "thick"}, settings{thick: true}},
	}
	for _, test := range tests {
		if got, err := settingsOf(test.parameters, test.mutable); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", test.why, got, err, test.want)
		}
	}
}

func TestParametersThatAreRefused(t *testing.T) {
	b := plain(t)
	for _, test := range []struct {
		parameters map[string]string
		says       []string
	}{
		{map[string]string{"type": "ssd", "colour": "red"}, []string{`["colour" "type"]`, `["discard" "overCommit" "provisioning"]`}},
		{map[string]string{"provisioning": "fat"}, []string{"provisioning", `"fat"`, `"thick"`}},
		{map[string]string{"discard": "maybe"}, []string{"discard", `"maybe"`}},
		{map[string]string{"discard": "true", "provisioning": "thick"}, []string{"remove one"}},
		{map[string]string{"overCommit": "0"}, []string{"overCommit", "above 0"}},
		{map[string]string{"overCommit": "NaN"}, []string{"overCommit"}},
	} {
		err := b.CheckParameters(test.parameters)
		for _, text := range test.says {
			if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), text) {
				t.Errorf("%v: %v, want an invalid argument that says %s", test.parameters, err, text)
			}
		}
	}
	if err := b.CheckParameters(map[string]string{"csi.storage.k8s.io/pvc/name": "data", "provisioning": "thin"}); err != nil {
		t.Errorf("what a provisioner adds: %v", err)
	}
	if err := b.CheckMutable(map[string]string{"overCommit": "2"}); !fault.Invalid.Is(err) {
		t.Errorf("a parameter that cannot change: %v", err)
	}
}

func TestCapabilities(t *testing.T) {
	b := plain(t)
	for _, mode := range backend.AccessModes {
		for _, fs := range []string{"", "ext4", "xfs", "btrfs"} {
			if err := b.CheckCapability(backend.Capability{Type: backend.Mount, Mode: mode, FSType: fs}); err != nil {
				t.Errorf("%s %s: %v", mode, fs, err)
			}
		}
		if err := b.CheckCapability(backend.Capability{Type: backend.Block, Mode: mode}); err != nil {
			t.Errorf("%s block: %v", mode, err)
		}
	}
	for field, c := range map[string]backend.Capability{
		"fs_type":            {Type: backend.Mount, FSType: "ntfs"},
		"mount_flags":        {Type: backend.Mount, MountFlags: []string{"loop=secret"}},
		"volume_mount_group": {Type: backend.Mount, MountGroup: "1000"},
	} {
		err := b.CheckCapability(c)
		if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), "mount."+field) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestTheFilesystemOfSeveralCapabilities(t *testing.T) {
	mount := func(fs string) backend.Capability { return backend.Capability{Type: backend.Mount, FSType: fs} }
	tests := []struct {
		capabilities []backend.Capability
		want         filesystem.Type
		fails        bool
	}{
		{[]backend.Capability{blockAccess}, filesystem.Nothing, false},
		{[]backend.Capability{mount("")}, filesystem.Ext4, false},
		{[]backend.Capability{mount(""), mount("xfs"), blockAccess}, filesystem.XFS, false},
		{[]backend.Capability{mount("xfs"), mount("btrfs")}, filesystem.XFS, true},
	}
	for _, test := range tests {
		if got, err := filesystemOf(test.capabilities); got != test.want || fault.Invalid.Is(err) != test.fails {
			t.Errorf("%v: %s, %v", test.capabilities, got, err)
		}
	}
}

func TestChooseSize(t *testing.T) {
	tests := []struct {
		why     string
		size    backend.Range
		minimum int64
		want    int64 // 0 is refused
	}{
		{"no wish", backend.Range{}, mebi, defaultBytes},
		{"only a limit", backend.Range{Limit: 5*mebi + 1}, mebi, 5 * mebi},
		{"a limit above the default", backend.Range{Limit: 1 << 40}, mebi, defaultBytes},
		{"a limit below the minimum", backend.Range{Limit: 5 * mebi}, 300 * mebi, 0},
		{"rounded up", backend.Range{Required: 5*mebi + 1}, mebi, 6 * mebi},
		{"rounded less under a limit", backend.Range{Required: 5*mebi + 1, Limit: 5*mebi + 5000}, mebi, 5*mebi + 4096},
		{"no size between them", backend.Range{Required: 5*mebi + 1, Limit: 5*mebi + 2}, mebi, 0},
		{"exact", backend.Range{Required: 5 * mebi, Limit: 5 * mebi}, mebi, 5 * mebi},
		{"raised to the minimum", backend.Range{Required: mebi}, 300 * mebi, 300 * mebi},
		{"raised within the limit", backend.Range{Required: mebi, Limit: 300 * mebi}, 300 * mebi, 300 * mebi},
		{"too small, and a limit forbids more", backend.Range{Required: mebi, Limit: 299 * mebi}, 300 * mebi, 0},
		{"the minimum", backend.Range{Required: 300 * mebi}, 300 * mebi, 300 * mebi},
		{"more than a file can have", backend.Range{Required: 1<<63 - 1}, mebi, 0},
	}
	for _, test := range tests {
		got, err := chooseSize(test.size, "xfs", test.minimum)
		if got != test.want || fault.OutOfRange.Is(err) != (test.want == 0) {
			t.Errorf("%s: %d, %v, want %d", test.why, got, err, test.want)
		}
		if err == nil && !test.size.Contains(got) {
			t.Errorf("%s: %d is not in %+v", test.why, got, test.size)
		}
	}
	if _, err := chooseSize(backend.Range{Required: mebi, Limit: mebi}, "xfs", 300*mebi); err == nil || !strings.Contains(err.Error(), "xfs; allow at least 314572800 (300 Mi)") {
		t.Errorf("the minimum is not named: %v", err)
	}
}

// Only a blank image is formatted.
func TestMustMake(t *testing.T) {
	ext4, xfs := filesystem.Content{Type: filesystem.Ext4}, filesystem.Content{Type: filesystem.XFS}
	tests := []struct {
		why           string
		found         finding
		want, refuses bool
	}{
		{"blank", finding{blank: true}, true, false},
		{"formatted", finding{content: ext4}, false, false},
		{"another filesystem", finding{content: xfs}, false, true},
		{"data", finding{}, false, true},
	}
	for _, test := range tests {
		got, err := mustMake(test.found, filesystem.Ext4)
		if got != test.want || fault.Incompatible.Is(err) != test.refuses {
			t.Errorf("%s: %v, %v", test.why, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	for name, config := range map[string]Config{
		"relative": {StateDir: "state"}, "limit": {StateDir: "/s", OverCommit: -1}, "volumes": {StateDir: "/s", MaxVolumes: -1},
	} {
		if _, err := New(config); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestVolumeLocks(t *testing.T) {
	var all volumeLocks
	id := backend.IDOf("vol")
	release, err := all.tryLock(id, "stage")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.tryLock(id, "delete"); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "to stage it has been running for ") {
		t.Errorf("a second call: %v, want busy with what runs", err)
	}
	waited := make(chan error)
	go func() {
		next, err := all.lock(t.Context(), id, "copy")
		if err == nil {
			next()
		}
		waited <- err
	}()
	release()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if again, err := all.tryLock(id, "delete"); err != nil {
		t.Error(err)
	} else {
		again()
	}
}
