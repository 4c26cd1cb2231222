package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/driver/reserve"
	"github.com/purser-csi/purser/internal/loopdev"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/test/scripted"
)

// fullPool is a small filesystem with the state of a driver and the paths of a kubelet on it, as
// on a node with one disk.
type fullPool struct {
	*rig
	t       *testing.T
	root    string
	loops   bool
	staging string
}

// mountPool mounts a small filesystem: tmpfs, or ext4 in a loop image.
func mountPool(t *testing.T, kind string) (root string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small filesystem")
	}
	dir := scripted.SocketDir(t)
	root = filepath.Join(dir, "pool")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := loopfile.DetachBelow(t.Context(), root); err != nil {
			t.Logf("detach: %v", err)
		}
		if _, err := mount.CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
		}
	})
	var err error
	if kind == "tmpfs" {
		err = unix.Mount("tmpfs", root, "tmpfs", 0, "size=96m,nr_inodes=400")
	} else {
		err = mountImage(t, filepath.Join(dir, "pool.img"), root)
	}
	if err != nil {
		t.Skipf("needs a mounted %s: %v", kind, err)
	}
	return root
}

func mountImage(t *testing.T, path, root string) error {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	if err := os.Truncate(path, 96<<20); err != nil {
		return err
	}
	if err := filesystem.Make(t.Context(), filesystem.Ext4, path, filesystem.Sparse); err != nil {
		return err
	}
	device, err := loopdev.Attach(t.Context(), path, loopdev.UntilUnused)
	if err != nil {
		return err
	}
	defer func() { _ = device.Release() }()
	return filesystem.Mount(filesystem.Mounting{Type: filesystem.Ext4, Device: device.Path(), Path: root})
}

func newFullPool(t *testing.T, kind string, loops bool) *fullPool {
	t.Helper()
	p := &fullPool{t: t, root: mountPool(t, kind), loops: loops}
	for _, dir := range []string{"state", "targets", "staging"} {
		if err := os.Mkdir(filepath.Join(p.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.staging = filepath.Join(p.root, "staging", "vol")
	if loops {
		if err := loopfile.Usable(p.state()); err != nil {
			t.Skip("no loop images here: " + err.Error())
		}
	}
	p.start()
	return p
}

func (p *fullPool) state() string { return filepath.Join(p.root, "state") }

// start begins as the role does: with the trial of a mount.
func (p *fullPool) start() {
	p.t.Helper()
	detection, err := mount.Detect(p.state())
	if err != nil {
		p.t.Fatalf("the trial of a mount: %v", err)
	}
	var b backend.Backend = directories(p.t, p.state())
	if p.loops {
		if b, err = loopfile.New(loopfile.Config{StateDir: p.state()}); err != nil {
			p.t.Fatal(err)
		}
	}
	p.rig = newRig(p.t, settings{state: p.state(), backend: b, mounter: detection.Mounter, attach: Attach{Required: true, Nodes: []string{"*"}}})
	p.targets = filepath.Join(p.root, "targets")
}

func (p *fullPool) capability() *csi.VolumeCapability {
	return mountCapability(csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
}

func (p *fullPool) create(name string) error {
	request := createRequest(name)
	request.CapacityRange = &csi.CapacityRange{RequiredBytes: 16 << 20}
	request.VolumeCapabilities = []*csi.VolumeCapability{p.capability()}
	_, err := p.CreateVolume(p.t.Context(), request)
	return err
}

func (p *fullPool) stage() error {
	if !p.loops {
		return nil
	}
	_, err := p.NodeStageVolume(p.t.Context(), stageRequest("vol", p.staging, p.capability()))
	return err
}

func (p *fullPool) publishAt(target string) error {
	_, err := p.NodePublishVolume(p.t.Context(), &csi.NodePublishVolumeRequest{
		VolumeId: "vol", StagingTargetPath: p.staging, TargetPath: p.target(target), VolumeCapability: p.capability(),
	})
	return err
}

func (p *fullPool) attach(node string) error {
	_, err := p.ControllerPublishVolume(p.t.Context(), &csi.ControllerPublishVolumeRequest{
		VolumeId: "vol", NodeId: node, VolumeCapability: p.capability(),
	})
	return err
}

func (p *fullPool) want(code codes.Code, what string, err error) {
	p.t.Helper()
	p.t.Log(what, err)
	wantCode(p.t, err, code)
}

// occupy takes all blocks, and with inodes set all inodes.
func (p *fullPool) occupy(inodes bool) {
	p.t.Helper()
	file, err := os.Create(filepath.Join(p.root, "ballast"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close()
	at := int64(0)
	for step := int64(16 << 20); step >= 1024; step /= 2 {
		for unix.Fallocate(int(file.Fd()), 0, at, step) == nil {
			at += step
		}
	}
	for i := 0; inodes && os.WriteFile(p.empty(i), nil, 0o600) == nil; i++ {
	}
	for i := 0; os.WriteFile(filepath.Join(p.root, fmt.Sprint("last", i)), []byte("x"), 0o600) == nil; i++ {
	}
}

func (p *fullPool) empty(i int) string { return filepath.Join(p.root, fmt.Sprint("empty", i)) }

// makeRoom undoes occupy.
func (p *fullPool) makeRoom() {
	p.t.Helper()
	for _, pattern := range []string{"ballast", "empty*", "last*"} {
		paths, _ := filepath.Glob(filepath.Join(p.root, pattern))
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				p.t.Fatal(err)
			}
		}
	}
}

// A pool without a free block and without a free inode does not stop the driver: it starts, refuses
// what would need room with RESOURCE_EXHAUSTED, and everything that makes room works. The reserve
// is tried both there and used up.
func TestAFullPoolDoesNotStopTheDriver(t *testing.T) {
	for _, kind := range []string{"ext4", "tmpfs"} {
		for _, loops := range []bool{false, true} {
			for _, reserved := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/loops=%v/reserve=%v", kind, loops, reserved), func(t *testing.T) {
					p := newFullPool(t, kind, loops)
					p.fillInUse(reserved)
					p.restart()
					p.refusals(reserved)
					p.leaving()
				})
			}
		}
	}
}

func (p *fullPool) fillInUse(reserved bool) {
	p.t.Helper()
	for _, name := range []string{"vol", "other"} {
		p.want(codes.OK, "create", p.create(name))
	}
	if !p.loops { // volumes of this backend are attached to several nodes
		for _, node := range []string{"node-1", "node-2"} {
			p.want(codes.OK, "attach", p.attach(node))
		}
	}
	p.want(codes.OK, "stage", p.stage())
	p.want(codes.OK, "publish", p.publishAt("pod"))
	if p.loops {
		p.wantHealth("")
		_, err := p.CreateSnapshot(p.t.Context(), &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: "vol"})
		p.want(codes.OK, "snapshot", err)
	}
	if !reserved {
		if err := os.RemoveAll(filepath.Join(p.state(), "reserve")); err != nil {
			p.t.Fatal(err)
		}
	}
	p.occupy(true)
}

func (p *fullPool) restart() {
	p.t.Helper()
	if err := p.stop(); err != nil {
		p.t.Fatal(err)
	}
	if p.loops {
		if err := loopfile.Usable(p.state()); !reserve.IsFull(err) {
			p.t.Fatalf("the trial of a loop device in a full pool: %v, want one of a full disk", err)
		}
	}
	p.start()
}

func (p *fullPool) refusals(reserved bool) {
	p.t.Helper()
	p.want(codes.ResourceExhausted, "create", p.create("third"))
	if p.loops {
		p.wantHealth("PoolFull")
		_, err := p.ControllerExpandVolume(p.t.Context(), &csi.ControllerExpandVolumeRequest{
			VolumeId: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: 32 << 20},
		})
		p.want(codes.ResourceExhausted, "expand", err)
		_, err = p.CreateSnapshot(p.t.Context(), &csi.CreateSnapshotRequest{Name: "second", SourceVolumeId: "vol"})
		p.want(codes.ResourceExhausted, "snapshot", err)
	}
	if !reserved {
		p.want(codes.ResourceExhausted, "publish", p.publishAt("second"))
		return
	}
	// A record is what the reserve is for.
	p.want(codes.OK, "publish", p.publishAt("second"))
	p.unpublish(p.t, "vol", "second")
	p.occupy(true)
}

// wantHealth checks the reason in the health of the volume, which works in part; none for a healthy one.
func (p *fullPool) wantHealth(reason string) {
	p.t.Helper()
	got, err := p.ControllerGetVolumeHealth(p.t.Context(), &csi.ControllerGetVolumeHealthRequest{VolumeId: "vol"})
	wantCode(p.t, err, codes.OK)
	problems := got.GetVolumeHealth().GetHealthStatuses()
	if len(problems) == 0 && reason == "" {
		return
	}
	if len(problems) != 1 || problems[0].GetReason() != reason ||
		problems[0].GetStatus() != csi.VolumeHealthErrorType_DEGRADED {
		p.t.Errorf("health %v, want the reason %q", problems, reason)
	}
}

func (p *fullPool) leaving() {
	p.t.Helper()
	p.unpublish(p.t, "vol", "pod")
	p.occupy(true) // each call finds a full pool
	if p.loops {
		_, err := p.NodeUnstageVolume(p.t.Context(), &csi.NodeUnstageVolumeRequest{VolumeId: "vol", StagingTargetPath: p.staging})
		p.want(codes.OK, "unstage", err)
		p.occupy(true)
		_, err = p.DeleteSnapshot(p.t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: "snap"})
		p.want(codes.OK, "delete snapshot", err)
		p.occupy(true)
	}
	for _, node := range []string{"node-1", "node-2"} {
		_, err := p.ControllerUnpublishVolume(p.t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "vol", NodeId: node})
		p.want(codes.OK, "detach from "+node, err)
	}
	p.delete(p.t, "other")
	p.occupy(true)
	p.delete(p.t, "vol")
	p.makeRoom()
	p.want(codes.OK, "create when there is room", p.create("third"))
	if !reserve.New(p.state()).IsWhole() {
		p.t.Error("the reserve was not made again")
	}
	p.delete(p.t, "third")
	for _, folder := range []string{"volumes", "temp", "trash", "published"} {
		wantEmptyDir(p.t, filepath.Join(p.state(), folder))
	}
}
