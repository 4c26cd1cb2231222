package rbd

import (
	"context"
	"errors"
	"strconv"

	"github.com/go-logr/logr"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/record"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Blueprint is a new image.
type Blueprint struct {
	Object  handle.Object
	Request backend.Request
	// Bytes is its size; that of the source at least.
	Bytes int64
	// DataPool and Features are the class's wishes; empty for the cluster's
	// defaults.
	DataPool, Features string
}

// Get describes a volume. An image without a record is none yet.
func (p Pool) Get(ctx context.Context, o handle.Object) (backend.Volume, error) {
	id, err := o.ID()
	if err != nil {
		return backend.Volume{}, err
	}
	text, err := p.metadata(ctx, ImageName(o), recordKey)
	if isMissing(err) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	if err != nil {
		return backend.Volume{}, err
	}
	volume, err := record.Volume(o, text)
	if err != nil {
		return backend.Volume{}, err
	}
	image, err := p.info(ctx, ImageName(o))
	if isMissing(err) {
		return backend.Volume{}, backend.NoSuchVolume(id.String())
	}
	volume.CapacityBytes = image.Size
	return volume, err
}

// Create makes an image. The record is the last step. An image that a
// failure leaves before that step is removed at once, or else by the next call,
// which finds the name taken.
func (p Pool) Create(ctx context.Context, b Blueprint) error {
	text, err := record.OfRequest(b.Request)
	if err != nil {
		return err
	}
	err = p.build(ctx, b, text)
	if err == nil {
		return nil
	}
	if cleaning := p.discardIncomplete(context.WithoutCancel(ctx), b.Object); cleaning != nil {
		logr.FromContextOrDiscard(ctx).
			Error(cleaning, "What a failed create left stays until it is repeated", "image", p.spec(ImageName(b.Object)))
	}
	return err
}

func (p Pool) build(ctx context.Context, b Blueprint, text string) error {
	var err error
	if b.Request.Source.IsNothing() {
		err = p.createEmpty(ctx, b)
	} else {
		err = p.createFrom(ctx, b)
	}
	if err != nil {
		return err
	}
	if err := p.SetLimits(ctx, b.Object, b.Request.Mutable); err != nil {
		return err
	}
	return p.setMetadata(ctx, ImageName(b.Object), recordKey, text)
}

func (p Pool) createEmpty(ctx context.Context, b Blueprint) error {
	err := p.begin(ctx, b, "create", p.spec(ImageName(b.Object)), "--size="+bytesOf(b.Bytes))
	return p.explainMissingPool(err, b)
}

// begin is the step that makes the image. Most names are free, so no call asks
// before: where one is not, that step changes nothing and says so.
func (p Pool) begin(ctx context.Context, b Blueprint, arguments ...string) error {
	arguments = append(arguments, b.options()...)
	_, err := p.rbd(ctx, arguments...)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if err := p.discardIncomplete(ctx, b.Object); err != nil {
		return err
	}
	_, err = p.rbd(ctx, arguments...)
	return err
}

func (b Blueprint) options() (options []string) {
	if b.DataPool != "" {
		options = append(options, "--data-pool="+b.DataPool)
	}
	if b.Features != "" {
		options = append(options, "--image-feature="+b.Features)
	}
	return options
}

func (p Pool) explainMissingPool(err error, b Blueprint) error {
	switch {
	case !isMissing(err):
		return err
	case b.DataPool != "":
		return fault.Invalid.Errorf(
			"parameters: pool %q or dataPool %q does not exist in cluster %q: %w",
			p.Place.Pool,
			b.DataPool,
			p.Place.Cluster,
			err,
		)
	default:
		return fault.Invalid.Errorf(
			"parameters: pool %q does not exist in cluster %q; create it and run `rbd pool init %s`: %w",
			p.Place.Pool,
			p.Place.Cluster,
			p.Place.Pool,
			err,
		)
	}
}

// bytesOf spells a size for the program.
func bytesOf(bytes int64) string { return strconv.FormatInt(bytes, 10) + "B" }

// discardIncomplete removes an image without a record of its own. Another
// process could be about to complete it: another driver with the same name to
// make. Then one of the two fails, and is repeated.
func (p Pool) discardIncomplete(ctx context.Context, o handle.Object) error {
	image := ImageName(o)
	i, err := p.info(ctx, image)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := p.Get(ctx, o); !fault.NotFound.Is(err) {
		return errors.Join(err) // it is complete: nothing to discard
	}
	if migrating, err := p.isMigrating(ctx, image); err != nil {
		return err
	} else if migrating {
		_, err := p.rbd(ctx, "migration", "abort", p.spec(image), "--no-progress")
		return err
	}
	return p.dispose(ctx, image, i)
}

// Expand makes an image larger; one that is large enough stays as it is. The
// program refuses to make one smaller, and says so only then.
func (p Pool) Expand(ctx context.Context, o handle.Object, bytes int64) (now int64, err error) {
	failed := p.resize(ctx, ImageName(o), bytes)
	if isMissing(failed) {
		id, _ := o.ID()
		return 0, backend.NoSuchVolume(id.String())
	}
	if !errors.Is(failed, unix.EINVAL) {
		return bytes, failed
	}
	i, err := p.info(ctx, ImageName(o))
	if err == nil && i.Size < bytes {
		err = failed
	}
	return i.Size, err
}

func (p Pool) resize(ctx context.Context, image string, bytes int64) error {
	_, err := p.rbd(ctx, "resize", p.spec(image), "--size="+bytesOf(bytes), "--no-progress")
	return err
}
