package directory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
)

// Recover implements backend.Recoverer: it makes the folders and removes volumes that a killed
// driver had half created or half deleted.
func (b *Backend) Recover(ctx context.Context) error {
	for _, dir := range []string{b.volumes, b.temp, b.trash} {
		if err := b.reserve.Do(func() error { return os.MkdirAll(dir, ownMode) }); err != nil {
			return fmt.Errorf("make the state directory: %w", err)
		}
	}
	for _, dir := range []string{b.temp, b.trash} {
		if err := b.sweep(ctx, dir); err != nil {
			return err
		}
	}
	if _, err := b.reserve.Make(); err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "The reserve for deletions in a full pool is missing")
	}
	return nil
}

// sweep logs a leftover that it cannot remove instead of failing, since no volume depends on it.
func (b *Backend) sweep(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for leftovers: %w", err)
	}
	log := logr.FromContextOrDiscard(ctx)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if err := b.removeLeftover(path); err != nil {
			log.Error(err, "A leftover of an earlier run stays", "path", path)
			continue
		}
		log.Info("Removed a leftover of an earlier run", "path", path)
	}
	return nil
}

func (b *Backend) removeLeftover(path string) error {
	if err := b.refuseMounts(path); err != nil {
		return err
	}
	return os.RemoveAll(path)
}
