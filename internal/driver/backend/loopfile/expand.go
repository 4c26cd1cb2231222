package loopfile

import (
	"context"
	"path/filepath"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/internal/loopdev"
)

// Expand implements backend.Expander. A device that is in use sees its new
// size at once; the filesystem on it is for the node.
func (b *Backend) Expand(ctx context.Context, id backend.ID, size backend.Range) (backend.Expansion, error) {
	if err := ctx.Err(); err != nil {
		return backend.Expansion{}, err
	}
	release, err := b.locks.tryLock(id, "expand")
	if err != nil {
		return backend.Expansion{}, err
	}
	defer release()
	m, err := b.readVolume(id)
	if err != nil {
		return backend.Expansion{}, err
	}
	space, err := image.Measure(b.imageOf(id))
	if err != nil {
		return backend.Expansion{}, backend.Damaged("volume", id, imageFile, err)
	}
	e := backend.Expansion{CapacityBytes: space.Size, NodeMustExpand: m.Filesystem != filesystem.Nothing}
	if size.Limit > 0 && space.Size > size.Limit {
		return e, fault.OutOfRange.Errorf(
			"capacity_range.limit_bytes %d: volume %q has %d bytes already and cannot shrink",
			size.Limit,
			id,
			space.Size,
		)
	}
	if space.Size < size.Required {
		bytes, err := b.chooseGrown(id, m, size, space.Size)
		if err != nil {
			return e, err
		}
		if err := b.enlarge(id, m, bytes); err != nil {
			return e, err
		}
		e.CapacityBytes = bytes
	}
	if err := b.writeAsked(id, m, size.Required, e.CapacityBytes); err != nil {
		return e, err
	}
	return e, b.growDevice(id)
}

// writeAsked records a request that was rounded up to the size of the volume. A repeated call finds
// the volume large enough and writes it too.
func (b *Backend) writeAsked(id backend.ID, m volumeMetadata, asked, bytes int64) error {
	if asked == m.Asked || backend.LeastRequest(bytes, asked, roundedUp(asked, m.Filesystem)) == 0 {
		return nil
	}
	m.Asked = asked
	if err := backend.WriteJSON(filepath.Join(b.volumeDir(id), volumeFile), b.temp, m); err != nil {
		return classify("expand volume "+id.String(), err)
	}
	return nil
}

// chooseGrown returns the new size, which depends on the filesystem in the image: an empty image
// can get one of any size later.
func (b *Backend) chooseGrown(id backend.ID, m volumeMetadata, size backend.Range, have int64) (int64, error) {
	if m.Filesystem != filesystem.Nothing {
		content, err := filesystem.Probe(b.imageOf(id))
		if err != nil {
			return 0, backend.Damaged("volume", id, imageFile, err)
		}
		if size, err = whenGrown(size, content.Type, have); err != nil {
			return 0, err
		}
	}
	return chooseSize(size, "this volume", have)
}

func (b *Backend) enlarge(id backend.ID, m volumeMetadata, bytes int64) error {
	wishes, err := m.settings()
	if err != nil {
		return backend.Damaged("volume", id, volumeFile, err)
	}
	// The filesystem of the volume needs room for its new part, and ext4 for what undoes the growth.
	if err := b.reserve.Admit(); err != nil {
		return classify("expand volume "+id.String(), err)
	}
	if err := b.promise(b.volumeEntry(id), bytes, wishes); err != nil {
		return err
	}
	// Also after an error, the account has the real size of the image.
	defer b.account(b.volumeEntry(id))
	if wishes.thick {
		err = b.enlargeThick(id, bytes)
	} else {
		err = image.Resize(b.imageOf(id), bytes)
	}
	return b.classify("expand volume "+id.String(), err)
}

// enlargeThick reserves the space before it raises the size: after an interruption at any step, a
// volume has all the space of its size.
func (b *Backend) enlargeThick(id backend.ID, bytes int64) error {
	space, err := image.Measure(b.imageOf(id))
	if err != nil {
		return err
	}
	if err := b.allocateMore(b.imageOf(id), bytes, bytes-space.Allocated); err != nil {
		return err
	}
	return image.Resize(b.imageOf(id), bytes)
}

func (b *Backend) growDevice(id backend.ID) error {
	r, err := b.readRecord(id)
	if err != nil || r == nil {
		return err
	}
	device, err := b.deviceOf(id)
	if err != nil || device == nil {
		return err
	}
	return b.classify("expand volume "+id.String(), device.Grow())
}

// NodeExpand implements backend.NodeExpander.
func (b *Backend) NodeExpand(ctx context.Context, e backend.NodeExpansion) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	release, err := b.locks.tryLock(e.Volume, "expand")
	if err != nil {
		return 0, err
	}
	defer release()
	if _, err := b.readVolume(e.Volume); err != nil {
		return 0, err
	}
	space, err := image.Measure(b.imageOf(e.Volume))
	if err != nil {
		return 0, backend.Damaged("volume", e.Volume, imageFile, err)
	}
	if e.Size.Required > space.Size {
		return 0, fault.OutOfRange.Errorf(
			"capacity_range.required_bytes %d: volume %q has %d bytes; expand it in the controller first",
			e.Size.Required,
			e.Volume,
			space.Size,
		)
	}
	r, err := b.readRecord(e.Volume)
	if err != nil {
		return 0, err
	}
	if r == nil {
		return 0, fault.Unready.Errorf("volume %q is not staged; it grows when it is", e.Volume)
	}
	device, err := b.deviceOf(e.Volume)
	if err == nil && device == nil {
		err = fault.Unready.Errorf("volume %q has no loop device any more; stage it again", e.Volume)
	}
	if err == nil {
		err = device.Grow()
	}
	if err == nil && r.Access == backend.Mount {
		err = b.growMounted(e.Volume, device, *r)
	}
	return space.Size, b.classify("expand volume "+e.Volume.String(), err)
}

// growMounted expands a mounted filesystem to the size of its image.
func (b *Backend) growMounted(id backend.ID, device *loopdev.Device, r record) error {
	space, err := image.Measure(b.imageOf(id))
	if err != nil {
		return err
	}
	return filesystem.Fill(device.Path(), r.Path, space.Size)
}
