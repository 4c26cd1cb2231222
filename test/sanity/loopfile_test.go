package sanity

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

func TestLoopImagesWithExt4(t *testing.T)  { runSanity(t, loopImages(t, filesystem.Ext4, 16, 32)) }
func TestLoopImagesWithXFS(t *testing.T)   { runSanity(t, loopImages(t, filesystem.XFS, 320, 400)) }
func TestLoopImagesWithBtrfs(t *testing.T) { runSanity(t, loopImages(t, filesystem.Btrfs, 128, 200)) }

func TestLoopImagesAsBlockDevices(t *testing.T) {
	s := loopImages(t, filesystem.Default, 4, 8)
	s.flags = append(s.flags, "--csi.testvolumeaccesstype=block")
	runSanity(t, s)
}

// With ControllerPublishVolume, in a zone.
func TestLoopImagesThatAreAttached(t *testing.T) {
	s := loopImages(t, filesystem.Ext4, 16, 32)
	s.attaches, s.topology = true, map[string]string{"topology.kubernetes.io/zone": "a"}
	s.least += 8
	runSanity(t, s)
}

// loopImages skips where loop devices or the programs of the filesystem are
// missing.
func loopImages(t *testing.T, fs filesystem.Type, first, grown int) subject {
	t.Helper()
	mounter := mayMount(t)
	if err := loopfile.Usable(shortDir(t)); err != nil {
		t.Skip("no loop images here: " + err.Error())
	}
	if err := filesystem.Present(fs); err != nil {
		t.Skip(err.Error())
	}
	return subject{
		backend: func(t *testing.T, state string) backend.Backend {
			t.Helper()
			b, err := loopfile.New(loopfile.Config{StateDir: state})
			if err != nil {
				t.Fatal(err)
			}
			return formatted{b, string(fs)}
		},
		mounter: mounter,
		flags: append(sizes(first, grown),
			"--csi.testvolumeparameters="+yaml(t, `provisioning: "thin"`),
			"--csi.testvolumemutableparameters="+yaml(t, `discard: "false"`)),
		least:   80,
		folders: []string{"volumes", "snapshots", "staged", "frozen", "temp", "trash"},
	}
}

// yaml is a file with one line.
func yaml(t *testing.T, line string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "parameters.yaml")
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// formatted chooses the filesystem: csi-sanity always leaves that to the
// driver.
type formatted struct {
	*loopfile.Backend
	fs string
}

func (f formatted) choose(c backend.Capability) backend.Capability {
	if c.Type == backend.Mount {
		c.FSType = f.fs
	}
	return c
}

// Create lets the backend check sizes for the filesystem.
func (f formatted) Create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	asked := r.Capabilities
	r.Capabilities = make([]backend.Capability, 0, len(asked))
	for _, c := range asked {
		r.Capabilities = append(r.Capabilities, f.choose(c))
	}
	volume, err := f.Backend.Create(ctx, r)
	volume.Capabilities = asked
	return volume, err
}

// Get gives what was asked for, so that a repeated request finds it.
func (f formatted) Get(ctx context.Context, id backend.ID) (backend.Volume, error) {
	volume, err := f.Backend.Get(ctx, id)
	for i := range volume.Capabilities {
		volume.Capabilities[i].FSType = ""
	}
	return volume, err
}

func (f formatted) Stage(ctx context.Context, s backend.Staging) error {
	s.Capability = f.choose(s.Capability)
	return f.Backend.Stage(ctx, s)
}
