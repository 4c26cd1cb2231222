package loopfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// freeze blocks the writes of pods to some volumes. It ends once, when the copy is made, after a
// timeout, or when the program ends.
type freeze struct {
	marks string

	mu     sync.Mutex
	ended  error
	frozen []frozen
}

type frozen struct {
	volume backend.ID
	fs     *filesystem.Mounted
}

var (
	errThawed  = errors.New("the copies are made")
	errTooLong = errors.New("it took too long")
	errStopped = fault.Unready.Errorf("the driver is stopping, and pods must not wait for its successor; try again")
)

// add freezes one more volume. It writes a mark to disk first, so that the next start can undo a
// freeze after a kill. Freezing can take long when much data has to be written: after the timeout
// the other volumes are thawed without waiting for it.
func (f *freeze) add(z frozen) error {
	mark := filepath.Join(f.marks, z.volume.String())
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		return err
	}
	if err := z.fs.Freeze(); err != nil {
		return errors.Join(err, removeEmpty(mark))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended != nil {
		return errors.Join(f.ended, f.thaw(z))
	}
	f.frozen = append(f.frozen, z)
	return nil
}

// end thaws the volumes and returns why the freeze ended, which can be before this call.
func (f *freeze) end(why error) (cause, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == nil {
		f.ended = why
	}
	var failures []error
	for _, z := range f.frozen {
		failures = append(failures, f.thaw(z))
	}
	f.frozen = nil
	return f.ended, errors.Join(failures...)
}

func (f *freeze) thaw(z frozen) error {
	if err := z.fs.Thaw(); err != nil {
		return err
	}
	return removeEmpty(filepath.Join(f.marks, z.volume.String()))
}

// freezes are the current freezes. After Close there are no new ones.
type freezes struct {
	mu      sync.Mutex
	lasting map[*freeze]struct{}
	stopped bool
}

// beginFreeze starts a freeze that ends after the timeout at the latest.
func (b *Backend) beginFreeze(ctx context.Context) (f *freeze, finish func() (cause, err error), err error) {
	b.freezes.mu.Lock()
	defer b.freezes.mu.Unlock()
	if b.freezes.stopped {
		return nil, nil, errStopped
	}
	f = &freeze{marks: b.frozen}
	b.freezes.lasting[f] = struct{}{}
	watch := time.AfterFunc(b.config.FreezeBound, func() {
		if _, err := f.end(errTooLong); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "A freeze that took too long could not be undone")
		}
	})
	return f, func() (cause, err error) {
		watch.Stop()
		b.freezes.mu.Lock()
		delete(b.freezes.lasting, f)
		b.freezes.mu.Unlock()
		return f.end(errThawed)
	}, nil
}

// endingBound is how long Close waits for cancelled work.
const endingBound = 5 * time.Second

// Close implements backend.Closer: it thaws all volumes, since otherwise their pods would wait for
// a program that has ended, cancels background work, and closes the devices.
func (b *Backend) Close() error {
	err := b.freezes.stop()
	b.tasks.End(endingBound)
	b.releaseDevices()
	return err
}

// releaseDevices closes the devices, as the end of the process does: what is staged stays attached.
func (b *Backend) releaseDevices() {
	b.devicesLock.Lock()
	defer b.devicesLock.Unlock()
	for id, device := range b.devices {
		_ = device.Release()
		delete(b.devices, id)
	}
}

func (z *freezes) stop() error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.stopped = true
	var failures []error
	for f := range z.lasting {
		_, err := f.end(errStopped)
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// thawAll undoes the freezes that a killed driver left.
func (b *Backend) thawAll(ctx context.Context) error {
	entries, err := os.ReadDir(b.frozen)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		log := logr.FromContextOrDiscard(ctx).WithValues("volume", entry.Name())
		if err := b.thawLeft(entry.Name()); err != nil {
			log.Error(
				err,
				"A freeze of an earlier run could not be undone; thaw what is mounted of the volume with fsfreeze "+
					"--unfreeze",
			)
			continue
		}
		log.Info("A freeze of an earlier run was undone")
		if err := removeEmpty(filepath.Join(b.frozen, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// thawLeft thaws the filesystem of a volume wherever it is mounted. After a
// boot of the machine it has no device, and nothing is frozen.
func (b *Backend) thawLeft(name string) error {
	id, err := backend.ParseID(name)
	if err != nil {
		return err
	}
	inode, err := loopdev.InodeOf(b.imageOf(id))
	if err != nil {
		return err
	}
	device, err := loopdev.FindLike(inode, loopdev.Named(imageFile))
	if err != nil || device == nil {
		return err
	}
	defer func() { _ = device.Release() }()
	fs, err := openAnywhere(device, "")
	if err != nil || fs == nil {
		return err
	}
	return errors.Join(fs.Thaw(), fs.Close())
}

// openAnywhere opens the filesystem of a device at one of its mount points, the preferred one
// first. It returns nil if the device is not mounted.
func openAnywhere(device *loopdev.Device, preferred string) (*filesystem.Mounted, error) {
	users, err := device.Users()
	if err != nil {
		return nil, err
	}
	if real, err := filepath.EvalSymlinks(preferred); err == nil {
		preferred = real
	}
	paths := users.Mounted
	for i, path := range paths {
		if path == preferred {
			paths[0], paths[i] = paths[i], paths[0]
		}
	}
	var failures []error
	for _, path := range paths {
		// One that is hidden under another mount cannot be reached.
		fs, err := filesystem.OpenMounted(device.Path(), path)
		if err == nil {
			return fs, nil
		}
		failures = append(failures, err)
	}
	if others := slices.Concat(users.Bound, users.Stacked); len(failures) == 0 && len(others) > 0 {
		failures = append(
			failures,
			fault.InUse.Errorf("its device is in use at %s, which nothing can keep from writing", others[0]),
		)
	}
	return nil, errors.Join(failures...)
}
