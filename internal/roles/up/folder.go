package up

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/node"
)

const marker = "purser-data-folder"

// openDataDir makes the folder, and refuses one that holds anything else, since --fresh empties it.
func (h *upRun) openDataDir() error {
	entries, err := os.ReadDir(h.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("--data-dir=%s: %w", h.DataDir, err)
	}
	ours := slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == marker })
	if len(entries) > 0 && !ours {
		return fmt.Errorf(
			"--data-dir=%s: the folder has files that 'purser up' did not make; choose an empty or a new one",
			h.DataDir,
		)
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir=%s: %w", h.DataDir, err)
	}
	if err := os.WriteFile(
		filepath.Join(h.dir, marker), []byte("made by 'purser up'; 'purser up --fresh' empties this folder\n"), 0o600,
	); err != nil {
		return fmt.Errorf("--data-dir=%s: %w", h.DataDir, err)
	}
	return nil
}

// clear removes the leftovers of an `up` that was killed, and with --fresh everything.
func (h *upRun) clear() error {
	began := time.Now()
	removed, err := h.unpublish()
	if err != nil {
		return err
	}
	if len(removed) > 0 {
		h.screen.step(fmt.Sprintf("unmounted what was left (%d)", len(removed)), time.Since(began))
	}
	if !h.Fresh {
		return nil
	}
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return fmt.Errorf("--fresh: %w", err)
	}
	for _, e := range entries {
		if e.Name() == marker || e.Name() == "lock" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(h.dir, e.Name())); err != nil {
			return fmt.Errorf("--fresh: %w", err)
		}
	}
	return nil
}

// unpublish removes the publications for pods: mounts, and the links that stand in for them. It
// returns the paths that were mounted.
func (h *upRun) unpublish() ([]string, error) {
	roots := []string{h.dir}
	others, err := filepath.Glob(filepath.Join(h.dir, "nodes", "*"))
	for _, root := range append(roots, others...) {
		err = errors.Join(err, node.ReleaseLocks(root))
	}
	removed, failed := mount.CleanBelow(h.dir)
	err = errors.Join(err, failed)
	for _, root := range append(roots, others...) {
		if err == nil {
			err = removeLinks(filepath.Join(root, "pods"))
		}
	}
	if err != nil {
		return removed, fmt.Errorf("unpublish what was left below %s: %w", h.dir, err)
	}
	return removed, nil
}

// removeLinks removes the symbolic links below a folder, which are publications without a mount. It
// follows none of them.
func removeLinks(dir string) error {
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Type()&os.ModeSymlink == 0 {
			return err
		}
		return os.Remove(path)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
