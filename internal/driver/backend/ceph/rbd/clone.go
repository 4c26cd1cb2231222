package rbd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/parallel"
)

const (
	// flattenAt is the number of images that a clone may read through before
	// the cluster is asked to make it independent, and refuseAt the number at
	// which nothing is cloned before that is done. The kernel's client reads
	// through 16.
	flattenAt, refuseAt = 4, 12
)

// cloneFormat lets snapshots be removed before their clones, without a setting of the cluster.
const cloneFormat = "--rbd-default-clone-format=2"

// createFrom makes an image that begins with a snapshot or another volume.
func (p Pool) createFrom(ctx context.Context, b Blueprint) error {
	source := b.Request.Source
	if source.Volume.String() != "" {
		o, err := handle.Of(source.Volume)
		if err != nil {
			return err
		}
		if err := p.samePlace(o); err != nil {
			return err
		}
		return p.cloneVolume(ctx, b, o)
	}
	o, err := handle.Of(source.Snapshot)
	if err != nil {
		return err
	}
	if err := p.samePlace(o); err != nil {
		return err
	}
	image, s, err := p.find(ctx, o)
	if err != nil {
		return err
	}
	if s.isOfGroup() {
		return p.copyMember(ctx, b, image, s)
	}
	depth, err := p.depth(ctx, image)
	if err != nil {
		return err
	}
	return p.clone(ctx, b, origin{image: image, snap: s.Name, bytes: s.Size, depth: depth})
}

func (p Pool) samePlace(o handle.Object) error {
	if o.Place != p.Place {
		return fault.Invalid.Errorf(
			"volume_content_source: it is in %s and the new volume would be in %s; use a class for the same pool",
			o.Place,
			p.Place,
		)
	}
	return nil
}

// cloneVolume takes a temporary snapshot for the clone. After a crash the next call uses the same
// snapshot, so the clone has the content of the first call.
func (p Pool) cloneVolume(ctx context.Context, b Blueprint, source handle.Object) error {
	from := origin{image: ImageName(source), snap: cloneSnap(b.Object)}
	err := parallel.Do(
		func() error { return unlessThere(p.rbd(ctx, "snap", "create", p.spec(from.image)+"@"+from.snap)) },
		func() (err error) { from.depth, err = p.depth(ctx, from.image); return err },
	)
	if err != nil {
		return err
	}
	if err := p.clone(ctx, b, from); err != nil {
		return err
	}
	return p.removeSnap(ctx, from.image, from.snap)
}

// cloneSnap is the name of the snapshot that a volume is cloned from.
func cloneSnap(target handle.Object) string {
	id, _ := target.ID()
	return "c" + handle.Snapshot(target, id.String()).Snap[1:]
}

func isCloneSnap(name string) bool {
	return strings.HasPrefix(name, "c") && handle.IsSnap("s"+strings.TrimPrefix(name, "c"))
}

// origin is a snapshot that is cloned.
type origin struct {
	image, snap string
	// bytes is its size; 0 when it has not been read yet.
	bytes int64
	// depth is how many images it reads through.
	depth int
}

// clone makes an image of a snapshot.
func (p Pool) clone(ctx context.Context, b Blueprint, from origin) error {
	if from.depth >= refuseAt {
		p.flatten(ctx, from.image)
		return fault.Busy.Errorf(
			"image %s reads through %d others, and no more than %d are allowed; the cluster is making it independent (ceph rbd task list); try again when that task has ended",
			p.spec(from.image),
			from.depth,
			refuseAt,
		)
	}
	target := ImageName(b.Object)
	if err := p.begin(ctx, b, "clone", p.spec(from.image)+"@"+from.snap, p.spec(target), cloneFormat); err != nil {
		return err
	}
	if err := p.adopt(ctx, b, from.bytes); err != nil {
		return err
	}
	if from.depth+1 >= flattenAt {
		p.flatten(ctx, target)
	}
	return nil
}

// depth counts the images that an image reads through.
func (p Pool) depth(ctx context.Context, image string) (int, error) {
	i, err := p.info(ctx, image)
	for depth := 0; ; depth++ {
		if err != nil || i.Parent == nil || depth >= refuseAt {
			return depth, err
		}
		i, err = p.infoByID(ctx, i.Parent.Pool, i.Parent.ID)
	}
}

// flatten starts a task of the cluster that makes an image independent of its parent. An error is
// not returned, since the clone works without it.
func (p Pool) flatten(ctx context.Context, image string) {
	log := logr.FromContextOrDiscard(ctx).WithValues("image", p.spec(image))
	if err := p.manager(ctx, "rbd", "task", "add", "flatten", p.spec(image)); err != nil {
		log.Error(err, "A long chain of clones is not shortened; run: rbd flatten")
		return
	}
	log.Info("The cluster makes a clone at the end of a long chain independent; see: ceph rbd task list")
}

// adopt removes the metadata that a copy has from its source, and gives the copy its size. It has
// so many bytes; 0 when that has not been read yet.
func (p Pool) adopt(ctx context.Context, b Blueprint, has int64) error {
	image := ImageName(b.Object)
	var along map[string]string
	err := parallel.Do(
		func() error { return p.ask(ctx, &along, "image-meta", "list", p.spec(image)) },
		func() error {
			if has > 0 {
				return nil
			}
			i, err := p.info(ctx, image)
			has = i.Size
			return err
		},
	)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(along)) {
		if !mustGo(b.Object, key, along[key]) {
			continue
		}
		if err := p.removeMetadata(ctx, image, key); err != nil {
			return err
		}
	}
	if has >= b.Bytes {
		return nil
	}
	return p.resize(ctx, image, b.Bytes)
}

// mustGo reports whether a key of the source's metadata must be removed from a
// copy. The record of another volume may stay until the last step overwrites it.
// A record that could be taken for the copy's own, or that is not readable, must
// be removed before.
func mustGo(o handle.Object, key, value string) bool {
	if key == recordKey {
		_, err := record.Volume(o, value)
		return !fault.NotFound.Is(err)
	}
	return strings.HasPrefix(key, recordKey) || strings.HasPrefix(key, "conf_rbd_qos_")
}
