package main

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
)

const mebi = 1 << 20

// volumeBytes is enough for every filesystem, and the same for all.
const volumeBytes = 512 * mebi

// subject is a kind of volume.
type subject struct {
	name    string
	backend func(state string) (backend.Backend, error)
	// access is how volumes are used; fs is its filesystem, empty for none.
	access *csi.VolumeCapability
	fs     string
	// direct volumes are not staged: they are published instead.
	direct bool
	tools  func(dir string) hands
}

func subjects() []subject {
	all := []subject{{
		name: "directory", direct: true, access: mounted(""),
		backend: func(state string) (backend.Backend, error) {
			return directory.New(directory.Config{StateDir: state})
		},
		tools: func(dir string) hands { return directoryTools{dir} },
	}}
	for _, fs := range []string{"ext4", "xfs", "btrfs", ""} {
		s := subject{
			name: "loopfile " + fs, fs: fs, access: mounted(fs), backend: newLoopfile,
			tools: func(dir string) hands { return loopTools{dir: dir, fs: fs} },
		}
		if fs == "" {
			s.name, s.access = "loopfile block", block()
		}
		all = append(all, s)
	}
	return all
}

func newLoopfile(state string) (backend.Backend, error) {
	return loopfile.New(loopfile.Config{StateDir: state})
}

var writer = &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}

func mounted(fs string) *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: writer,
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fs}},
	}
}

func block() *csi.VolumeCapability {
	return &csi.VolumeCapability{
		AccessMode: writer,
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
	}
}
