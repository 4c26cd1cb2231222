package rbd

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
)

// formattingKey is on an image while an mkfs is under way. It is stored with the image and not on
// the node: a node that lost power in between may never come back, or come back after another node
// has made the filesystem and filled it.
const formattingKey = "purser.formatting"

// BeginFormat marks an image. The mark is there before the first byte of mkfs.
func (p Pool) BeginFormat(ctx context.Context, o handle.Object) error {
	return p.setMetadata(ctx, ImageName(o), formattingKey, "begun")
}

// EndFormat takes the mark away. Every byte of mkfs is in the image by then.
func (p Pool) EndFormat(ctx context.Context, o handle.Object) error {
	return p.removeMetadata(ctx, ImageName(o), formattingKey)
}

// IsHalfFormatted says that an mkfs was begun and has not ended.
func (p Pool) IsHalfFormatted(ctx context.Context, o handle.Object) (bool, error) {
	_, err := p.metadata(ctx, ImageName(o), formattingKey)
	if isMissing(err) {
		return false, nil
	}
	return err == nil, err
}

// Extent is a part of an image.
type Extent struct {
	Offset int64 `json:"offset"`
	Length int64 `json:"length"`
}

// Extents are the parts that may hold something else than zeros: those that were
// written, and those that a clone reads from its parent.
func (p Pool) Extents(ctx context.Context, o handle.Object) ([]Extent, error) {
	var all []part
	if err := p.ask(ctx, &all, "diff", p.spec(ImageName(o)), "--whole-object"); err != nil {
		return nil, err
	}
	var extents []Extent
	for _, one := range all {
		if !one.isZeros() {
			extents = append(extents, one.Extent)
		}
	}
	return extents, nil
}
