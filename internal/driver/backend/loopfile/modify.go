package loopfile

import (
	"context"
	"maps"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// Modify implements backend.Modifier. Thick reserves the missing space in the pool at once. Discard
// takes effect at once if the mounted filesystem can change it, and otherwise (xfs) from the next
// stage on.
func (b *Backend) Modify(ctx context.Context, id backend.ID, mutable map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.CheckMutable(mutable); err != nil {
		return err
	}
	release, err := b.locks.tryLock(id, "modify")
	if err != nil {
		return err
	}
	defer release()
	m, err := b.readVolume(id)
	if err != nil {
		return err
	}
	merged := maps.Clone(m.Mutable)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, mutable)
	if maps.Equal(merged, m.Mutable) {
		return nil
	}
	m.Mutable = merged
	wishes, err := m.settings()
	if err != nil {
		return err
	}
	if wishes.thick {
		if err := b.allocate(b.imageOf(id)); err != nil {
			return classify("modify volume "+id.String(), err)
		}
		b.account(b.volumeEntry(id))
	}
	if err := backend.WriteJSON(filepath.Join(b.volumeDir(id), volumeFile), b.temp, m); err != nil {
		return classify("modify volume "+id.String(), err)
	}
	return b.applyDiscard(ctx, id, wishes)
}

// applyDiscard ignores filesystems that cannot change it while mounted, since the next stage
// applies it.
func (b *Backend) applyDiscard(ctx context.Context, id backend.ID, wishes settings) error {
	r, err := b.readRecord(id)
	if err != nil || r == nil || r.Access != backend.Mount {
		return err
	}
	if err := filesystem.SetDiscard(r.Filesystem, r.Path, wishes.discard); err != nil {
		logr.FromContextOrDiscard(ctx).
			Info(
				"What is discarded changes when the volume is staged the next time", "volume", id.String(), "cause",
				err.Error(),
			)
	}
	return nil
}
