package rbd

import (
	"context"
	"strings"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

const (
	// flattenAt is the number of images that a clone may read through before
	// the cluster is asked to make it independent, and refuseAt the number at
	// which nothing is cloned before that is done. The kernel's client reads
	// through 16.
	flattenAt, refuseAt = 4, 12
)

// cloneFormat lets snapshots go before their clones do, without a setting of
// the cluster.
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
	return p.clone(ctx, b, image, s.Name)
}

func (p Pool) samePlace(o handle.Object) error {
	if o.Place != p.Place {
		return fault.Invalid.Errorf("volume_content_source: it is in %s and the new volume would be in %s; use a class for the same pool", o.Place, p.Place)
	}
	return nil
}

// cloneVolume takes a snapshot for the time of the clone. After a crash the
// next call finds and uses it: what the source was at the first call is what
// was asked for.
func (p Pool) cloneVolume(ctx context.Context, b Blueprint, source handle.Object) error {
	image, name := ImageName(source), cloneSnap(b.Object)
	if err := unlessThere(p.rbd(ctx, "snap", "create", p.spec(image)+"@"+name)); err != nil {
		return err
	}
	if err := p.clone(ctx, b, image, name); err != nil {
		return err
	}
	return p.removeSnap(ctx, image, name)
}

// cloneSnap is the name of the snapshot that a volume is cloned from.
func cloneSnap(target handle.Object) string {
	id, _ := target.ID()
	return "c" + handle.Snapshot(target, id.String()).Snap[1:]
}

func isCloneSnap(name string) bool {
	return strings.HasPrefix(name, "c") && handle.IsSnap("s"+strings.TrimPrefix(name, "c"))
}

// clone makes an image of a snapshot.
func (p Pool) clone(ctx context.Context, b Blueprint, image, snap string) error {
	depth, err := p.depth(ctx, image)
	if err != nil {
		return err
	}
	if depth >= refuseAt {
		p.flatten(ctx, image)
		return fault.Busy.Errorf("image %s reads through %d others, and no more than %d are allowed; the cluster was told to make it independent (ceph rbd task list), try again when it has",
			p.spec(image), depth, refuseAt)
	}
	target := ImageName(b.Object)
	arguments := append([]string{"clone", p.spec(image) + "@" + snap, p.spec(target), cloneFormat}, b.options()...)
	if _, err := p.rbd(ctx, arguments...); err != nil {
		return err
	}
	if err := p.adopt(ctx, target, b.Bytes); err != nil {
		return err
	}
	if depth+1 >= flattenAt {
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

// flatten asks the cluster to give an image its own data, in the background.
// The clone is good as it is, so nothing fails when it cannot be asked.
func (p Pool) flatten(ctx context.Context, image string) {
	log := logr.FromContextOrDiscard(ctx).WithValues("image", p.spec(image))
	if err := p.manager(ctx, "rbd", "task", "add", "flatten", p.spec(image)); err != nil {
		log.Error(err, "A long chain of clones is not shortened; run: rbd flatten")
		return
	}
	log.Info("The cluster makes a clone at the end of a long chain independent; see: ceph rbd task list")
}

// adopt removes what a copy brought along from its source and gives it its
// size.
func (p Pool) adopt(ctx context.Context, image string, bytes int64) error {
	var have map[string]string
	if err := p.ask(ctx, &have, "image-meta", "list", p.spec(image)); err != nil {
		return err
	}
	for key := range have {
		if !strings.HasPrefix(key, recordKey) && !strings.HasPrefix(key, "conf_rbd_qos_") {
			continue
		}
		if err := p.removeMetadata(ctx, image, key); err != nil {
			return err
		}
	}
	i, err := p.info(ctx, image)
	if err != nil || i.Size >= bytes {
		return err
	}
	return p.resize(ctx, image, bytes)
}
