// Package naming keeps the names of snapshots apart. The id of a snapshot
// begins with its volume, so that it is found without an index; but a name is
// for one snapshot of the whole plugin (CreateSnapshotRequest.name), and that
// takes a place where all are written.
//
// It decides whether a name is free. What is written only leads to a snapshot
// that might exist: the snapshot itself is looked at before a name is refused,
// so what a crash leaves does no harm.
//
// It must not know where the book is.
package naming

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Book is where the names of one place are written: a key for each name, which
// is the last part of the ids that the name leads to.
type Book interface {
	// Read gives the id that is written, "" when there is none.
	Read(ctx context.Context, key string) (id string, err error)
	Write(ctx context.Context, key, id string) error
	// Exists says whether a snapshot or group is there.
	Exists(ctx context.Context, o handle.Object) (bool, error)
}

// Claim takes the name of a snapshot or group that is about to be made. It
// fails with fault.Incompatible when another one has it. The name is taken when
// the step that it gives has been taken, which can be beside others, as long as
// they make nothing that has the name.
func Claim(ctx context.Context, book Book, o handle.Object) (take func() error, err error) {
	id, err := o.ID()
	if err != nil {
		return nil, err
	}
	has, err := book.Read(ctx, o.Snap)
	if err != nil {
		return nil, err
	}
	if has == id.String() {
		return func() error { return nil }, nil
	}
	if other, err := handle.Parse(has); err == nil {
		there, err := book.Exists(ctx, other)
		if err != nil {
			return nil, err
		}
		if there {
			return nil, fault.Incompatible.Errorf("%q has this name already; use another name or delete it", has)
		}
	}
	return func() error { return book.Write(ctx, o.Snap, id.String()) }, nil
}
