package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// elsewhere is a folder on another filesystem, which can be frozen without
// harm.
func (r *rig) elsewhere() string {
	r.Helper()
	other := r.create(request("elsewhere", mountOf(filesystem.Ext4), 16*mebi))
	return r.stage(other.ID, mountOf(filesystem.Ext4))
}

// stageAt stages below a folder and writes a file.
func (r *rig) stageAt(id backend.ID, host string) (path string) {
	r.Helper()
	path = filepath.Join(host, "staging")
	s := backend.Staging{Volume: id, Path: path, Capability: mountOf(filesystem.Ext4)}
	if err := r.Stage(r.Context(), s); err != nil {
		r.Fatal(err)
	}
	write(r.TB, path, "file", some)
	return path
}

// isFrozen asks the kernel, which refuses to freeze twice.
func isFrozen(t *testing.T, fs *filesystem.Mounted) bool {
	t.Helper()
	err := fs.Freeze()
	if err == nil {
		err = fs.Thaw()
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	if !errors.Is(err, unix.EBUSY) {
		t.Fatal(err)
	}
	return true
}

// A record without a mount: the filesystem at its path is not the volume's, and
// is never frozen. Here it is frozen already, so that an attempt is an error.
func TestASnapshotOfARecordWithoutAMount(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", mountOf(filesystem.Ext4), 16*mebi))
	host := r.elsewhere()
	path := r.stageAt(v.ID, host)
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	// A filesystem can be frozen only once: a second freeze would fail, or thaw the first one at
	// its end.
	dir, err := os.Open(host)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	const freeze, thaw = 0xc0045877, 0xc0045878
	if err := unix.IoctlSetInt(int(dir.Fd()), freeze, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.IoctlSetInt(int(dir.Fd()), thaw, 0)
	s, err := r.snapshot("snap", v.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(dir.Fd()), freeze, 0); !errors.Is(err, unix.EBUSY) {
		t.Errorf("the filesystem of others was thawed: %v", err)
	}
	if err := unix.IoctlSetInt(int(dir.Fd()), thaw, 0); err != nil {
		t.Fatal(err)
	}
	restore := request("restored", mountOf(""), 0)
	restore.Source.Snapshot = s.ID
	wantContent(t, r.stage(r.create(restore).ID, mountOf("")), "file", some)
}

// The staging path was unmounted, but a pod still writes through its target.
func TestASnapshotOfWhatIsMountedElsewhere(t *testing.T) {
	r := newRig(t)
	if shared, err := image.CanShare(r.temp); err != nil || shared {
		t.Skipf("needs a temporary folder that copies every byte (%v, %v)", shared, err)
	}
	v := r.create(request("vol", mountOf(filesystem.Ext4), 16*mebi))
	path := r.stageAt(v.ID, r.dir)
	bind(t, path, filepath.Join(r.dir, "target"))
	if err := unix.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	r.config.FreezeBound = time.Nanosecond
	if _, err := r.snapshot("snap", v.ID); !fault.InUse.Is(err) || !strings.Contains(err.Error(), "unstage it") {
		t.Errorf("%v, want what a freeze gives that takes too long", err)
	}
	r.config.FreezeBound, r.slow.failed = time.Minute, map[backend.ID]time.Time{}
	if _, err := r.snapshot("snap", v.ID); err != nil {
		t.Error(err)
	}
	wantEntries(t, r.frozen)
}

// A copy that took too long is not retried at once, since its pods would wait in vain. Here a retry
// could not work.
func TestACopyThatTookTooLongIsNotTriedAgain(t *testing.T) {
	r := poolRig(t, filesystem.Ext4, 256*mebi, Config{})
	v := r.create(request("vol", mountOf(filesystem.Ext4), 16*mebi))
	at := r.stage(v.ID, mountOf(""))
	look := r.space.Look
	r.space.Look = func() (Disk, error) { // the copy begins, and its time is over
		return Disk{}, r.endAll(errTooLong)
	}
	if _, err := r.snapshot("snap", v.ID); !fault.InUse.Is(err) {
		t.Fatalf("%v, want in use", err)
	}
	r.freezes.stopped, r.space.Look = true, look
	if _, err := r.snapshot("snap", v.ID); !fault.InUse.Is(err) || !strings.Contains(err.Error(), "when it was tried") {
		t.Errorf("%v, want in use, without a try", err)
	}
	r.freezes.stopped = false
	r.unstage(v.ID)
	if _, err := r.snapshot("snap", v.ID); err != nil {
		t.Errorf("not in use: %v", err)
	}
	r.stage(v.ID, mountOf(""))
	r.slow.failed[v.ID] = time.Now().Add(-slowFor)
	if _, err := r.snapshot("snap-2", v.ID); err != nil {
		t.Errorf("much later: %v", err)
	}
	wantEntries(t, at, "lost+found")
}

// After a boot of the machine there is another filesystem at the path at which
// the volume was frozen.
func TestRecoverThawsNothingOfOthers(t *testing.T) {
	r := newRig(t)
	v := r.create(request("vol", mountOf(filesystem.Ext4), 16*mebi))
	host := r.elsewhere()
	if err := os.WriteFile(filepath.Join(r.frozen, v.ID.String()), []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	fs, err := openAnywhere(r.held(backend.IDOf("elsewhere")), host)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	if err := fs.Freeze(); err != nil {
		t.Fatal(err)
	}
	defer fs.Thaw()
	r = r.restart()
	wantEntries(t, r.frozen)
	if !isFrozen(t, fs) {
		t.Error("the filesystem of others was thawed")
	}
}

// lasting starts a freeze of one volume in use.
func (r *rig) lasting() (f *freeze, finish func() (cause, err error), z frozen) {
	r.Helper()
	v := r.create(request("vol", mountOf(filesystem.Ext4), 16*mebi))
	at := r.stage(v.ID, mountOf(""))
	fs, err := openAnywhere(r.held(v.ID), at)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { _ = errors.Join(fs.Thaw(), fs.Close()) })
	f, finish, err = r.beginFreeze(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return f, finish, frozen{v.ID, fs}
}

// Freezing one volume of a group can take long. After the timeout the others are thawed without
// waiting for it, and it is thawed as soon as it is frozen.
func TestAFreezeThatComesTooLate(t *testing.T) {
	r := newRig(t)
	r.config.FreezeBound = time.Nanosecond
	f, finish, z := r.lasting()
	for f.isLasting() {
		time.Sleep(time.Millisecond)
	}
	if err := f.add(z); !errors.Is(err, errTooLong) {
		t.Errorf("%v, want too long", err)
	}
	if isFrozen(t, z.fs) {
		t.Error("it stays frozen")
	}
	if cause, err := finish(); !errors.Is(cause, errTooLong) || err != nil {
		t.Errorf("%v, %v", cause, err)
	}
	wantEntries(t, r.frozen)
}

func (r *rig) endAll(why error) error {
	r.freezes.mu.Lock()
	defer r.freezes.mu.Unlock()
	for f := range r.freezes.lasting {
		if _, err := f.end(why); err != nil {
			return err
		}
	}
	return why
}

func (f *freeze) isLasting() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended == nil
}

// Close thaws, so that no pod waits for a driver that has ended.
func TestCloseThaws(t *testing.T) {
	r := newRig(t)
	f, finish, z := r.lasting()
	if err := f.add(z); err != nil {
		t.Fatal(err)
	}
	if !isFrozen(t, z.fs) {
		t.Fatal("it is not frozen")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if isFrozen(t, z.fs) {
		t.Error("it is still frozen")
	}
	wantEntries(t, r.frozen)
	if cause, err := finish(); !errors.Is(cause, errStopped) || err != nil {
		t.Errorf("%v, %v", cause, err)
	}
	if _, err := r.snapshot("snap", z.volume); !fault.Unready.Is(err) {
		t.Errorf("a snapshot after the end: %v, want unready", err)
	}
}
