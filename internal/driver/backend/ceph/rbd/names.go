package rbd

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/naming"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// namesImage is an image without content. Its metadata has the names of the
// snapshots and groups of the pool.
const namesImage = "purser-names"

// book is the naming.Book of a pool.
type book struct{ Pool }

var _ naming.Book = book{}

// Read implements naming.Book.
func (b book) Read(ctx context.Context, key string) (string, error) {
	id, err := b.metadata(ctx, namesImage, key)
	if isMissing(err) {
		return "", nil
	}
	return id, err
}

// Write implements naming.Book, and makes the book with the first name.
func (b book) Write(ctx context.Context, key, id string) error {
	err := b.setMetadata(ctx, namesImage, key, id)
	if !isMissing(err) {
		return err
	}
	if err := unlessThere(b.rbd(ctx, "create", b.spec(namesImage), "--size=1M")); err != nil {
		return err
	}
	return b.setMetadata(ctx, namesImage, key, id)
}

// Exists implements naming.Book.
func (b book) Exists(ctx context.Context, o handle.Object) (bool, error) {
	var err error
	if o.IsGroup {
		_, err = b.GetGroup(ctx, o)
	} else {
		_, _, err = b.find(ctx, o)
	}
	if fault.NotFound.Is(err) {
		return false, nil
	}
	return err == nil, err
}

// forgetName is for a snapshot or group that is deleted. A name that stays
// does no harm.
func (p Pool) forgetName(ctx context.Context, o handle.Object) error {
	return p.removeMetadata(ctx, namesImage, o.Snap)
}
