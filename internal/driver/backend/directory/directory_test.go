package directory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"golang.org/x/sys/unix"
)

func open(t *testing.T, stateDir string) *Backend {
	t.Helper()
	b, err := New(Config{StateDir: stateDir})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func request(name string) backend.Request {
	return backend.Request{
		ID:   backend.IDOf(name),
		Name: name,
		Size: backend.Range{Required: 1 << 30},
		Capabilities: []backend.Capability{
			{Type: backend.Mount, Mode: backend.SingleNodeWriter},
			{Type: backend.Mount, Mode: backend.MultiNodeReaderOnly},
		},
	}
}

func create(t *testing.T, b *Backend, name string) backend.Volume {
	t.Helper()
	v, err := b.Create(t.Context(), request(name))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestAVolumeSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain", "ein Gefäß/../\"", strings.Repeat("x", 128)} {
		made := create(t, open(t, dir), name)
		got, err := open(t, dir).Get(t.Context(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, got, cmp.AllowUnexported(backend.ID{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestCreateFillsNothingButTheVolume(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	create(t, b, "vol")
	wantEntries(t, b.temp)
	wantEntries(t, b.trash)
	wantEntries(t, b.volumes, "vol")
	wantEntries(t, b.path(backend.IDOf("vol")), "data", "volume.json")
}

// Pods run as any user, and the other users of the machine must stay out.
func TestModes(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	b := open(t, filepath.Join(t.TempDir(), "state"))
	v := create(t, b, "vol")
	want := map[string]os.FileMode{
		filepath.Dir(b.volumes): 0o700, b.volumes: 0o700, b.path(v.ID): 0o700,
		filepath.Join(b.path(v.ID), "data"): 0o777,
	}
	for path, mode := range want {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, mode)
		}
	}
}

func TestChooseSize(t *testing.T) {
	tests := []struct {
		size backend.Range
		want int64
	}{
		{backend.Range{}, 0},
		{backend.Range{Required: 5}, 5},
		{backend.Range{Required: 5, Limit: 9}, 5},
		{backend.Range{Limit: 9}, 9},
	}
	for _, test := range tests {
		got := chooseSize(test.size)
		if got != test.want || !test.size.Contains(got) {
			t.Errorf("chooseSize(%+v) = %d, want %d", test.size, got, test.want)
		}
	}
}

func TestDelete(t *testing.T) {
	b := open(t, t.TempDir())
	v := create(t, b, "vol")
	source, err := b.Source(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(source, "deep", "er"), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call is the idempotent one
		if err := b.Delete(t.Context(), v.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{b.volumes, b.temp, b.trash} {
		wantEntries(t, dir)
	}
	if _, err := b.Get(t.Context(), v.ID); !fault.NotFound.Is(err) {
		t.Errorf("Get after Delete: %v, want not found", err)
	}
	if _, err := b.Source(t.Context(), v.ID); !fault.NotFound.Is(err) {
		t.Errorf("Source after Delete: %v, want not found", err)
	}
}

func TestDeleteRefusesAVolumeWithAMountInside(t *testing.T) {
	b := open(t, t.TempDir())
	v := create(t, b, "vol")
	b.mountsBelow = func(dir string) ([]string, error) { return []string{dir + "/data/m"}, nil }
	if err := b.Delete(t.Context(), v.ID); !fault.InUse.Is(err) {
		t.Errorf("Delete: %v, want in use", err)
	}
	b.mountsBelow = func(string) ([]string, error) { return nil, errors.New("no /proc") }
	if err := b.Delete(t.Context(), v.ID); !fault.Internal.Is(err) {
		t.Errorf("Delete without a mount table: %v, want internal", err)
	}
	if _, err := b.Source(t.Context(), v.ID); err != nil {
		t.Errorf("the volume was touched: %v", err)
	}
}

func TestDamageStaysWithOneVolume(t *testing.T) {
	other := `{"format":1,"name":"sound","capacityBytes":1}`
	newer := `{"format":2,"name":"hurt","capacityBytes":1}`
	damages := map[string]func(volume string) error{
		"no metadata": func(v string) error { return os.Remove(filepath.Join(v, metadataFile)) },
		"empty":       func(v string) error { return os.WriteFile(filepath.Join(v, metadataFile), nil, 0o600) },
		"cut off":     func(v string) error { return os.Truncate(filepath.Join(v, metadataFile), 20) },
		"another's":   func(v string) error { return os.WriteFile(filepath.Join(v, metadataFile), []byte(other), 0o600) },
		"newer format": func(v string) error {
			return os.WriteFile(filepath.Join(v, metadataFile), []byte(newer), 0o600)
		},
		"file, not a dir": func(v string) error { return errors.Join(os.RemoveAll(v), os.WriteFile(v, nil, 0o600)) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			b := open(t, t.TempDir())
			hurt, sound := create(t, b, "hurt"), create(t, b, "sound")
			if err := damage(b.path(hurt.ID)); err != nil {
				t.Fatal(err)
			}
			_, err := b.Get(t.Context(), hurt.ID)
			if !fault.Internal.Is(err) || !strings.Contains(err.Error(), `volume "hurt" is damaged`) {
				t.Errorf("Get: %v, want it to be damaged", err)
			}
			if _, err := b.Get(t.Context(), sound.ID); err != nil {
				t.Errorf("the other volume: %v", err)
			}
			if err := b.Delete(t.Context(), hurt.ID); err != nil {
				t.Errorf("a damaged volume cannot be deleted: %v", err)
			}
			wantEntries(t, b.volumes, "sound")
		})
	}
}

func TestSourceNeedsTheData(t *testing.T) {
	b := open(t, t.TempDir())
	v := create(t, b, "vol")
	data := filepath.Join(b.path(v.ID), dataDir)
	if err := os.Remove(data); err != nil {
		t.Fatal(err)
	}
	// A link would publish whatever it points to.
	if err := os.Symlink("/", data); err != nil {
		t.Fatal(err)
	}
	if source, err := b.Source(t.Context(), v.ID); err == nil {
		t.Errorf("Source = %s, want an error", source)
	}
}

func TestAFailedCreateLeavesNothing(t *testing.T) {
	b := open(t, t.TempDir())
	// A directory with entries under the final name makes the last step fail.
	if err := os.MkdirAll(filepath.Join(b.volumes, "vol", "foreign"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context(), request("vol")); err == nil {
		t.Fatal("Create over a foreign directory succeeded")
	}
	wantEntries(t, b.temp)
	wantEntries(t, filepath.Join(b.volumes, "vol"), "foreign")
}

func TestACancelledCallDoesNothing(t *testing.T) {
	b := open(t, t.TempDir())
	v := create(t, b, "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Create(ctx, request("vol")); !errors.Is(err, context.Canceled) {
		t.Errorf("Create: %v, want cancelled", err)
	}
	if err := b.Delete(ctx, v.ID); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: %v, want cancelled", err)
	}
	wantEntries(t, b.volumes, "old")
}

// Recover removes the leftovers of a kill in each phase of Create and Delete.
func TestRecoverSweepsLeftovers(t *testing.T) {
	dir := t.TempDir()
	b := open(t, dir)
	create(t, b, "survivor")
	for _, path := range []string{
		filepath.Join(b.temp, "create-1"),
		filepath.Join(b.temp, "create-2", "data"),
		filepath.Join(b.trash, "vol-1"),
		filepath.Join(b.trash, "vol-2", "data", "file"),
	} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	b = open(t, dir)
	wantEntries(t, b.temp)
	wantEntries(t, b.trash)
	wantEntries(t, b.volumes, "survivor")
}

func TestRecoverLeavesMountsAlone(t *testing.T) {
	b := open(t, t.TempDir())
	if err := os.MkdirAll(filepath.Join(b.trash, "vol-1"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.mountsBelow = func(dir string) ([]string, error) { return []string{dir + "/data/m"}, nil }
	if err := b.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantEntries(t, b.trash, "vol-1")
}

func TestListIgnoresWhatIsNoVolume(t *testing.T) {
	b := open(t, t.TempDir())
	create(t, b, "b")
	create(t, b, "a")
	for _, name := range []string{"Lost+Found", ".hidden"} {
		if err := os.Mkdir(filepath.Join(b.volumes, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.volumes, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ids, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []backend.ID{backend.IDOf("a"), backend.IDOf("b")}
	if diff := cmp.Diff(want, ids, cmp.AllowUnexported(backend.ID{})); diff != "" {
		t.Error(diff)
	}
}

func TestRules(t *testing.T) {
	good := backend.Capability{Type: backend.Mount, Mode: backend.SingleNodeWriter}
	with := func(change func(*backend.Capability)) backend.Capability {
		c := good
		change(&c)
		return c
	}
	b := open(t, t.TempDir())
	for _, mode := range backend.AccessModes {
		if err := b.CheckCapability(backend.Capability{Type: backend.Mount, Mode: mode}); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
	for field, c := range map[string]backend.Capability{
		"access_type":        with(func(c *backend.Capability) { c.Type = backend.Block }),
		"fs_type":            with(func(c *backend.Capability) { c.FSType = "xfs" }),
		"mount_flags":        with(func(c *backend.Capability) { c.MountFlags = []string{"password=secret"} }),
		"volume_mount_group": with(func(c *backend.Capability) { c.MountGroup = "1000" }),
	} {
		err := b.CheckCapability(c)
		if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an invalid argument that names the field", field, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the mount flags leak: %v", field, err)
		}
	}
	if err := b.CheckParameters(nil); err != nil {
		t.Error(err)
	}
	err := b.CheckParameters(map[string]string{"size": "big", "colour": "red"})
	if !fault.Invalid.Is(err) || !strings.Contains(err.Error(), `["colour" "size"]`) {
		t.Errorf("unknown parameters: %v", err)
	}
}

func TestRoomAndUsage(t *testing.T) {
	b := open(t, t.TempDir())
	v := create(t, b, "vol")
	if room, err := b.Available(t.Context()); err != nil || room <= 0 {
		t.Errorf("Available = %d, %v", room, err)
	}
	source, err := b.Source(t.Context(), v.ID)
	if err != nil {
		t.Fatal(err)
	}
	usage, err := b.Usage(t.Context(), v.ID, source)
	if err != nil || len(usage) != 2 {
		t.Fatalf("Usage = %v, %v, want bytes and inodes", usage, err)
	}
	for _, u := range usage {
		if u.Total < 0 || u.Used < 0 || u.Available < 0 || u.Used > u.Total {
			t.Errorf("implausible: %+v", u)
		}
	}
	if _, err := b.Usage(t.Context(), v.ID, filepath.Join(source, "missing")); !fault.NotFound.Is(err) {
		t.Errorf("Usage of a missing path: %v, want not found", err)
	}
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	b := open(t, t.TempDir())
	if err := b.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.trash); err != nil {
		t.Fatal(err)
	}
	if err := b.Check(t.Context()); !fault.Unready.Is(err) || !strings.Contains(err.Error(), b.trash) {
		t.Errorf("Check without the trash: %v", err)
	}
}

func TestClassify(t *testing.T) {
	tests := map[error]fault.Kind{
		unix.ENOSPC: fault.Exhausted, unix.EDQUOT: fault.Exhausted, unix.EIO: fault.Internal,
	}
	for cause, want := range tests {
		if err := classify("create volume", &os.PathError{Op: "mkdir", Err: cause}); !want.Is(err) {
			t.Errorf("%v: %v", cause, err)
		}
	}
}

func TestNewWantsAnAbsolutePath(t *testing.T) {
	if _, err := New(Config{StateDir: "state"}); err == nil {
		t.Error("a relative path was accepted")
	}
}

func wantEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries of %s: %s", dir, diff)
	}
}
