package rbd

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

// Delete removes a volume. While it has snapshots its image only changes its
// name: no volume then, and still the source of its snapshots.
func (p Pool) Delete(ctx context.Context, o handle.Object) error {
	image := ImageName(o)
	var i info
	var snaps []snap
	var watchers []Watcher
	// None of these questions makes the program a watcher itself.
	err := parallel.Do(
		func() (err error) { i, err = p.info(ctx, image); return err },
		func() (err error) { snaps, err = p.snaps(ctx, image); return err },
		func() (err error) { watchers, err = p.watchers(ctx, image); return err },
	)
	if isMissing(err) {
		return p.emptyTrash(ctx, image)
	}
	if err != nil {
		return err
	}
	if len(watchers) > 0 {
		return p.InUse(o, watchers)
	}
	if err := p.removeCloneSnaps(ctx, image, snaps); err != nil {
		return err
	}
	if countLive(snaps) > 0 {
		_, err := p.rbd(ctx, "rename", p.spec(image), p.spec(deletedName(o, i.ID)))
		return err
	}
	return p.dispose(ctx, image, i)
}

// removeCloneSnaps removes the snapshots of an interrupted clone. Its clone is deleted or complete,
// since the driver runs one operation at a time with a source.
func (p Pool) removeCloneSnaps(ctx context.Context, image string, snaps []snap) error {
	for _, s := range snaps {
		if s.isUser() && isCloneSnap(s.Name) {
			if err := p.removeSnap(ctx, image, s.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// dispose moves an image without snapshots to the trash in one step, and then removes its data.
func (p Pool) dispose(ctx context.Context, image string, i info) error {
	if _, err := p.rbd(ctx, "trash", "mv", p.spec(image)); err != nil {
		return err
	}
	p.removeTrash(ctx, p.Place.Pool, i.ID, i.Parent)
	return nil
}

// quickly is how long a call waits for the data of an image to be removed
// before it leaves that to the cluster.
const quickly = 10 * time.Second

// removeTrash removes the data of an image in the trash, and then that of the images that were kept
// only because it read from them. It cannot fail: the volume is deleted already, and an image that
// cannot be removed is logged.
func (p Pool) removeTrash(ctx context.Context, pool, id string, above *parent) {
	log := logr.FromContextOrDiscard(ctx).WithValues("pool", pool, "id", id)
	err := p.removeQuickly(ctx, pool, id)
	switch {
	case err == nil, isMissing(err):
	case isRead(err):
		log.Info("A deleted image stays in the trash until the last clone that reads from it is gone")
		return
	default:
		log.Info("The cluster removes a deleted image in the background", "cause", err.Error())
		if err := p.manager(context.WithoutCancel(ctx), "rbd", "task", "add", "trash", "remove", pool+"/"+id); err != nil {
			log.Error(err, "A deleted image stays in the trash; run: rbd trash rm")
		}
		return
	}
	if above == nil {
		return
	}
	next, err := p.infoByID(ctx, above.Pool, above.ID)
	if err == nil && p.waitsInTrash(ctx, above) {
		p.removeTrash(ctx, above.Pool, above.ID, next.Parent)
	}
}

func (p Pool) removeQuickly(ctx context.Context, pool, id string) error {
	_, err := p.Tools.Run(context.WithoutCancel(ctx), command.Call{
		Program: command.RBD, Access: p.Access, Patience: quickly,
		Arguments: []string{"trash", "rm", pool + "/" + id, "--no-progress"},
	})
	return err
}

// isRead says that an image could not be removed because others read from it.
func isRead(err error) bool { return errors.Is(err, unix.ENOTEMPTY) }

// trashed is an image in the trash.
type trashed struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func (p Pool) trash(ctx context.Context, pool string) (all []trashed, err error) {
	return all, p.ask(ctx, &all, "trash", "ls", pool)
}

// waitsInTrash says whether an image is one that we put there: another program's
// stays.
func (p Pool) waitsInTrash(ctx context.Context, image *parent) bool {
	all, err := p.trash(ctx, image.Pool)
	if err != nil {
		return false
	}
	for _, t := range all {
		if t.ID == image.ID {
			return p.isOurs(t.Name)
		}
	}
	return false
}

func (p Pool) isOurs(image string) bool {
	_, live := p.object(image)
	_, gone := p.deletedObject(image)
	return live || gone
}

// emptyTrash removes the image of an interrupted Delete from the trash.
func (p Pool) emptyTrash(ctx context.Context, image string) error {
	all, err := p.trash(ctx, p.Place.Pool)
	if isMissing(err) { // no such pool
		return nil
	}
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.Name != image {
			continue
		}
		i, err := p.infoByID(ctx, p.Place.Pool, t.ID)
		if err != nil && !isMissing(err) {
			return err
		}
		p.removeTrash(ctx, p.Place.Pool, t.ID, i.Parent)
	}
	return nil
}
