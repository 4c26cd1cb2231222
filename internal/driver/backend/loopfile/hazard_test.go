package loopfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
	"golang.org/x/sys/unix"
)

func bind(t *testing.T, source, target string) {
	t.Helper()
	info, err := os.Stat(source)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.Mkdir(target, 0o755)
	} else {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

func TestUnstageRefusesWhatIsPublished(t *testing.T) {
	for _, name := range []string{"ext4", "btrfs", "block"} {
		t.Run(name, func(t *testing.T) {
			kind := kinds[name]
			if kind.capability.Type == backend.Mount {
				mayMake(t, filesystem.Type(name))
			}
			r := newRig(t)
			v := r.create(request("vol", kind.capability, kind.bytes))
			target := filepath.Join(r.dir, "target")
			bind(t, r.stage(v.ID, kind.capability), target)
			path := r.staging(v.ID, kind.capability).Path
			if err := r.Unstage(t.Context(), v.ID, path); !fault.InUse.Is(err) || !strings.Contains(err.Error(), target) {
				t.Errorf("Unstage: %v, want in use at the target", err)
			}
			if _, err := r.Staged(t.Context(), v.ID, path, kind.capability.Type); err != nil {
				t.Errorf("the refused call changed something: %v", err)
			}
			// Also after a restart, which knows it from the mount table only.
			r = r.restart()
			if err := r.Unstage(t.Context(), v.ID, path); !fault.InUse.Is(err) {
				t.Errorf("Unstage after a restart: %v, want in use", err)
			}
			if err := unix.Unmount(target, 0); err != nil {
				t.Fatal(err)
			}
			r.unstage(v.ID)
			r.wantNoDevices()
		})
	}
}

func TestUnstageIsRefusedWhileTheDeviceIsOpen(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", blockAccess, 4*mebi))
	user, err := os.Open(r.stage(v.ID, blockAccess))
	if err != nil {
		t.Fatal(err)
	}
	path := r.staging(v.ID, blockAccess).Path
	if err := r.Unstage(t.Context(), v.ID, path); !fault.InUse.Is(err) {
		t.Errorf("Unstage: %v, want in use", err)
	}
	if err := r.Delete(t.Context(), v.ID); !fault.InUse.Is(err) {
		t.Errorf("Delete: %v, want in use", err)
	}
	user.Close()
	r.unstage(v.ID)
	r.remove(v.ID)
}

func TestStageElsewhereOrOtherwise(t *testing.T) {
	mayMake(t, filesystem.XFS)
	r := newRig(t)
	c := mountOf("")
	v := r.create(request("vol", c, 16*mebi))
	r.stage(v.ID, c)
	s := r.staging(v.ID, c)
	s.Path += "-2"
	if err := r.Stage(t.Context(), s); !fault.InUse.Is(err) {
		t.Errorf("at another path: %v, want in use", err)
	}
	if err := r.Unstage(t.Context(), v.ID, s.Path); err != nil {
		t.Errorf("Unstage where it is not: %v", err)
	}
	if err := r.Stage(t.Context(), r.staging(v.ID, blockAccess)); !fault.Incompatible.Is(err) {
		t.Errorf("with other access: %v, want incompatible", err)
	}
	if err := r.Stage(t.Context(), r.staging(v.ID, mountOf(filesystem.XFS))); !fault.Incompatible.Is(err) {
		t.Errorf("as another filesystem: %v, want incompatible", err)
	}
	if err := r.CheckVolume(t.Context(), v.ID, mountOf(filesystem.XFS)); !fault.Incompatible.Is(err) {
		t.Errorf("CheckVolume for another filesystem: %v, want incompatible", err)
	}
	for _, c := range []backend.Capability{c, mountOf(filesystem.Ext4), blockAccess} {
		if err := r.CheckVolume(t.Context(), v.ID, c); err != nil {
			t.Errorf("CheckVolume for %s: %v", c, err)
		}
	}
	if _, err := r.Staged(t.Context(), v.ID, s.Path, backend.Mount); !fault.Unready.Is(err) {
		t.Errorf("Staged elsewhere: %v, want unready", err)
	}
	if err := r.Delete(t.Context(), v.ID); !fault.InUse.Is(err) {
		t.Errorf("Delete: %v, want in use", err)
	}
	if err := r.Stage(t.Context(), r.staging(backend.IDOf("missing"), c)); !fault.NotFound.Is(err) {
		t.Errorf("a missing volume: %v", err)
	}
}

func TestStageDoesNotCoverAnotherMount(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	v := r.create(request("vol", c, 16*mebi))
	bind(t, r.trash, r.staging(v.ID, c).Path)
	if err := r.Stage(t.Context(), r.staging(v.ID, c)); !fault.InUse.Is(err) {
		t.Errorf("%v, want in use", err)
	}
	wantEntries(t, r.staged)
	r.wantNoDevices()
}

// The mount flags of a user reach the kernel; a rejected flag leaves no mount.
func TestMountFlags(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	v := r.create(request("vol", c, 16*mebi))
	c.MountFlags = []string{"no-such-option=secret"}
	err := r.Stage(t.Context(), r.staging(v.ID, c))
	if !fault.Invalid.Is(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v, want an invalid argument that does not repeat the flag", err)
	}
	wantEntries(t, r.staged)
	r.wantNoDevices()
	c.MountFlags = []string{"ro", "noatime"}
	at := r.stage(v.ID, c)
	if err := os.WriteFile(filepath.Join(at, "file"), nil, 0o600); err == nil {
		t.Error("written to a volume that was mounted ro")
	}
}

// An image that is neither blank nor has a filesystem is not formatted.
func TestDataIsNeverFormatted(t *testing.T) {
	r := newRig(t)
	q := request("vol", blockAccess, 16*mebi)
	q.Capabilities = append(q.Capabilities, mountOf(""))
	v := r.create(q)
	write(t, r.stage(v.ID, blockAccess), "data", some)
	r.unstage(v.ID)
	if err := r.Stage(t.Context(), r.staging(v.ID, mountOf(""))); !fault.Incompatible.Is(err) {
		t.Errorf("%v, want incompatible", err)
	}
	wantContent(t, r.stage(v.ID, blockAccess), "data", some)
}

func TestDamageStaysWithOneVolume(t *testing.T) {
	damages := map[string]func(r *rig, id backend.ID) error{
		"no metadata": func(r *rig, id backend.ID) error { return os.Remove(filepath.Join(r.volumeDir(id), volumeFile)) },
		"cut off":     func(r *rig, id backend.ID) error { return os.Truncate(filepath.Join(r.volumeDir(id), volumeFile), 20) },
		"another's": func(r *rig, id backend.ID) error {
			return os.WriteFile(filepath.Join(r.volumeDir(id), volumeFile), []byte(`{"format":1,"name":"x"}`), 0o600)
		},
		"newer": func(r *rig, id backend.ID) error {
			return os.WriteFile(filepath.Join(r.volumeDir(id), volumeFile), []byte(`{"format":2,"name":"hurt"}`), 0o600)
		},
		"no image": func(r *rig, id backend.ID) error { return os.Remove(r.imageOf(id)) },
		"a linked image": func(r *rig, id backend.ID) error {
			if err := os.Remove(r.imageOf(id)); err != nil {
				return err
			}
			return os.Symlink("/etc/passwd", r.imageOf(id))
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			hurt, sound := r.create(request("hurt", blockAccess, mebi)), r.create(request("sound", blockAccess, mebi))
			if problem, err := r.Health(t.Context(), hurt.ID); err != nil || problem.Reason != "" {
				t.Errorf("Health before = %+v, %v", problem, err)
			}
			if err := damage(r, hurt.ID); err != nil {
				t.Fatal(err)
			}
			r = r.restart()
			if _, err := r.Get(t.Context(), hurt.ID); !fault.Internal.Is(err) || !strings.Contains(err.Error(), `volume "hurt" is damaged`) {
				t.Errorf("Get: %v, want it to be damaged", err)
			}
			if problem, err := r.Health(t.Context(), hurt.ID); err != nil || problem.Reason == "" {
				t.Errorf("Health = %+v, %v, want a problem", problem, err)
			}
			if problem, err := r.Health(t.Context(), sound.ID); err != nil || problem.Reason != "" {
				t.Errorf("Health of the other = %+v, %v", problem, err)
			}
			r.stage(sound.ID, blockAccess)
			if err := r.Stage(t.Context(), r.staging(hurt.ID, blockAccess)); err == nil {
				t.Error("a damaged volume was staged")
			}
			r.remove(hurt.ID)
		})
	}
}

func TestHealthOfWhatWasTakenAway(t *testing.T) {
	r := newRig(t)
	c := mountOf("")
	v := r.create(request("vol", c, 16*mebi))
	at := r.stage(v.ID, c)
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if problem, err := r.Health(t.Context(), v.ID); err != nil || !strings.Contains(problem.Message, "not mounted") {
		t.Errorf("Health = %+v, %v", problem, err)
	}
	if _, err := r.Staged(t.Context(), v.ID, at, backend.Mount); !fault.Unready.Is(err) {
		t.Errorf("Staged: %v, want unready", err)
	}
	r.stage(v.ID, c) // repairs
	if problem, err := r.Health(t.Context(), v.ID); err != nil || problem.Reason != "" {
		t.Errorf("Health = %+v, %v", problem, err)
	}
	if _, err := r.Health(t.Context(), backend.IDOf("missing")); !fault.NotFound.Is(err) {
		t.Errorf("a missing volume: %v", err)
	}
}

// A copy that takes longer than the freeze timeout is abandoned, and the pods can write again.
func TestAFreezeIsBounded(t *testing.T) {
	r := newRig(t)
	if shared, err := image.CanShare(r.temp); err != nil || shared {
		t.Skipf("needs a temporary folder that copies every byte (%v, %v)", shared, err)
	}
	c := mountOf("")
	v := r.create(request("vol", c, 64*mebi))
	at := r.stage(v.ID, c)
	write(t, at, "file", 16*mebi)
	r.config.FreezeBound = time.Nanosecond
	if _, err := r.snapshot("snap", v.ID); !fault.InUse.Is(err) || !strings.Contains(err.Error(), "unstage it") {
		t.Errorf("%v, want in use with the way out", err)
	}
	wantEntries(t, r.temp)
	wantEntries(t, r.snapshots)
	wantEntries(t, r.frozen)
	write(t, at, "other", some)
}

func TestPoolOfOneFailedCreate(t *testing.T) {
	r := newRig(t)
	// A directory with entries under the final name makes the last step fail.
	if err := os.MkdirAll(filepath.Join(r.volumes, "vol", "foreign"), 0o700); err != nil {
		t.Fatal(err)
	}
	before, err := r.Available(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Create(t.Context(), request("vol", blockAccess, 64*mebi)); err == nil {
		t.Fatal("Create over a foreign directory succeeded")
	}
	wantEntries(t, r.temp)
	wantEntries(t, filepath.Join(r.volumes, "vol"), "foreign")
	if after, err := r.Available(t.Context()); err != nil || before-after > 100*mebi {
		t.Errorf("Available fell from %d to %d, %v", before, after, err)
	}
}

// A loop device of another program on a broken filesystem does not keep the devices of this backend
// from being found. To detach the broken device fails once, since it cannot be flushed, and then
// works: only without it can the filesystem be unmounted and repaired.
func TestTheDeviceOfOthersIsOutOfOrder(t *testing.T) {
	const goingDown, atOnce = 0x8004587d, 2 // XFS_IOC_GOINGDOWN, without writing the log
	broken := poolRig(t, filesystem.XFS, 300*mebi, Config{})
	theirs := broken.create(request("theirs", blockAccess, mebi))
	broken.stage(theirs.ID, blockAccess)
	t.Cleanup(func() {
		device := broken.drop(theirs.ID)
		if err := device.Detach(); err == nil {
			t.Error("a device that cannot be flushed was detached without an error")
		}
		if err := device.Detach(); err != nil {
			t.Error(err)
		}
	})
	dir, err := os.Open(broken.state)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), goingDown, atOnce); err != nil {
		t.Fatal(err)
	}
	if _, err := loopdev.InodeOf(broken.imageOf(theirs.ID)); err == nil {
		t.Fatal("the filesystem still answers")
	}
	r := newRig(t)
	v := r.create(request("vol", blockAccess, mebi))
	write(t, r.stage(v.ID, blockAccess), "file", 1024)
	r = r.restart()
	wantContent(t, r.stage(v.ID, blockAccess), "file", 1024)
	r.unstage(v.ID)
	r.wantNoDevices()
}
