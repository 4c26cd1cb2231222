package loopfile

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile/image"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

const groupFile = "group.json"

// groupMetadata is group.json. The members are the directories beside it.
type groupMetadata struct {
	Format  int       `json:"format"`
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
}

func (b *Backend) groupDir(id backend.ID) string { return filepath.Join(b.groups, id.String()) }

// CreateGroup implements backend.Grouper: all mounted sources are frozen at the same time.
// Otherwise one snapshot could have a write that started after a write that is missing in another.
func (b *Backend) CreateGroup(ctx context.Context, r backend.GroupRequest) (backend.Group, error) {
	if err := ctx.Err(); err != nil {
		return backend.Group{}, err
	}
	return inBackground(
		ctx,
		b,
		grouping,
		r.ID,
		r,
		func(ctx context.Context) (backend.Group, error) { return b.createGroup(ctx, r) },
	)
}

func (b *Backend) createGroup(ctx context.Context, r backend.GroupRequest) (backend.Group, error) {
	if err := refuseUnknown("parameters", r.Parameters, nil); err != nil {
		return backend.Group{}, err
	}
	for _, source := range r.Sources {
		if _, err := b.readVolume(source); err != nil {
			return backend.Group{}, err
		}
	}
	if err := b.reserve.Admit(); err != nil {
		return backend.Group{}, classify("create group snapshot "+r.ID.String(), err)
	}
	if err := b.promiseGroup(r); err != nil {
		return backend.Group{}, err
	}
	err := b.buildGroup(ctx, r)
	for _, source := range r.Sources {
		// Releases the reservation if the member was not created.
		b.account(b.memberDir(r, source))
	}
	if err != nil {
		return backend.Group{}, classify("create group snapshot "+r.ID.String(), err)
	}
	return b.GetGroup(ctx, r.ID)
}

// member is the name of the snapshot of one source. No snapshot that is made
// alone can have its id by chance: a name with a slash is hashed.
func member(group backend.GroupRequest, source backend.ID) string {
	return group.Name + "/" + source.String()
}

func (b *Backend) memberDir(r backend.GroupRequest, source backend.ID) string {
	return filepath.Join(b.groupDir(r.ID), backend.IDOf(member(r, source)).String())
}

func (b *Backend) promiseGroup(r backend.GroupRequest) error {
	for _, source := range r.Sources {
		space, err := image.Measure(b.imageOf(source))
		if err != nil {
			return backend.Damaged("volume", source, imageFile, err)
		}
		if err := b.promise(b.memberDir(r, source), space.Allocated, settings{}); err != nil {
			for _, source := range r.Sources {
				b.promises.Remove(b.memberDir(r, source))
			}
			return err
		}
	}
	return nil
}

func (b *Backend) buildGroup(ctx context.Context, r backend.GroupRequest) error {
	dir, err := os.MkdirTemp(b.temp, "group-*")
	if err != nil {
		return err
	}
	err = b.fillGroup(ctx, dir, r)
	if err == nil {
		err = durable.Rename(dir, b.groupDir(r.ID))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	return nil
}

func (b *Backend) fillGroup(ctx context.Context, dir string, r backend.GroupRequest) error {
	created := time.Now().UTC()
	var all []copying
	for i, source := range r.Sources {
		in := filepath.Join(dir, filepath.Base(b.memberDir(r, source)))
		if err := os.Mkdir(in, ownMode); err != nil {
			return err
		}
		all = append(all, copying{volume: source, to: filepath.Join(in, imageFile)})
		m := snapshotMetadata{
			Format: backend.MetadataFormat, Name: member(r, source), Source: source.String(), Created: created,
			Group: r.ID.String(),
		}
		if i < len(r.SourceLeast) {
			m.Least = r.SourceLeast[i]
		}
		if err := backend.WriteJSON(filepath.Join(in, snapshotFile), in, m); err != nil {
			return err
		}
	}
	method, err := b.copyVolumes(ctx, all)
	if err != nil {
		return err
	}
	logMethod(ctx, method, "group snapshot "+r.ID.String())
	for _, c := range all {
		if err := durable.SyncDir(filepath.Dir(c.to)); err != nil {
			return err
		}
	}
	return backend.WriteJSON(
		filepath.Join(dir, groupFile),
		dir,
		groupMetadata{Format: backend.MetadataFormat, Name: r.Name, Created: created},
	)
}

// GetGroup implements backend.Grouper.
func (b *Backend) GetGroup(ctx context.Context, id backend.ID) (backend.Group, error) {
	var m groupMetadata
	err := backend.ReadJSON(filepath.Join(b.groupDir(id), groupFile), &m)
	if errors.Is(err, fs.ErrNotExist) && !exists(b.groupDir(id)) {
		return backend.Group{}, fault.NotFound.Errorf("group snapshot %.128q does not exist", id)
	}
	if err == nil {
		err = backend.CheckOwner(id, m.Format, m.Name)
	}
	if err != nil {
		return backend.Group{}, backend.Damaged("group snapshot", id, groupFile, err)
	}
	members, err := idsIn(b.groupDir(id))
	if err != nil {
		return backend.Group{}, err
	}
	g := backend.Group{ID: id, Name: m.Name, Created: m.Created}
	for _, member := range members {
		s, err := b.GetSnapshot(ctx, member)
		if err != nil {
			return backend.Group{}, err
		}
		g.Snapshots = append(g.Snapshots, s)
	}
	return g, nil
}

// DeleteGroup implements backend.Grouper.
func (b *Backend) DeleteGroup(ctx context.Context, id backend.ID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.tasks.Running(taskOf(grouping, id)); err != nil {
		return err
	}
	if !exists(b.groupDir(id)) {
		return nil
	}
	members, err := idsIn(b.groupDir(id))
	if err != nil {
		return err
	}
	if err := b.discard(ctx, b.groupDir(id), groupFile); err != nil {
		return classify("delete group snapshot "+id.String(), err)
	}
	for _, member := range members {
		b.promises.Remove(filepath.Join(b.groupDir(id), member.String()))
	}
	return nil
}
