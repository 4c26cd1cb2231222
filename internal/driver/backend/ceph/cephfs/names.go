package cephfs

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/naming"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// namesVolume is a subvolume without content. Its metadata has the names of
// the snapshots. No volume can have its name: names have no underscores.
const namesVolume = "_names"

// book is the naming.Book of a filesystem.
type book struct{ Filesystem }

var _ naming.Book = book{}

func (f Filesystem) inBook(ctx context.Context, verb string, arguments ...string) (string, error) {
	out, err := f.run(
		ctx,
		append([]string{"subvolume", "metadata", verb, f.Place.Pool, namesVolume}, append(arguments, groupArg)...)...)
	return strings.TrimSpace(string(out)), err
}

// Read implements naming.Book.
func (b book) Read(ctx context.Context, key string) (string, error) {
	id, err := b.inBook(ctx, "get", key)
	if isMissing(err) {
		return "", nil
	}
	return id, err
}

// Write implements naming.Book, and makes the book with the first name.
func (b book) Write(ctx context.Context, key, id string) error {
	_, err := b.inBook(ctx, "set", key, id)
	if !isMissing(err) {
		return err
	}
	if _, err := b.run(ctx, "subvolume", "create", b.Place.Pool, namesVolume, groupArg); err != nil &&
		!errors.Is(err, unix.EEXIST) {
		return err
	}
	_, err = b.inBook(ctx, "set", key, id)
	return err
}

// Exists implements naming.Book.
func (b book) Exists(ctx context.Context, o handle.Object) (bool, error) {
	_, err := b.GetSnapshot(ctx, o)
	if fault.NotFound.Is(err) {
		return false, nil
	}
	return err == nil, err
}

// forgetName is for a snapshot that is deleted. A name that stays does no
// harm.
func (f Filesystem) forgetName(ctx context.Context, o handle.Object) error {
	_, err := f.inBook(ctx, "rm", o.Snap)
	if isMissing(err) {
		return nil
	}
	return err
}
