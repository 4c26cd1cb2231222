package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/purser-csi/purser/internal/mount"
	mounting "github.com/purser-csi/purser/internal/node/rules"
)

// dirMode is a kubelet's mode of folders (5.4).
const dirMode = 0o750

// fileMode is a kubelet's mode of metadata files.
const fileMode = 0o644

func makeDirs(path string) error {
	if err := os.MkdirAll(path, dirMode); err != nil {
		return fmt.Errorf("make the folder of a volume: %w", err)
	}
	return nil
}

// unfinished is the name of a metadata file that is being written.
const unfinished = mounting.DataFile + ".new"

// writeMetadata writes a metadata file at once: a reader finds the old content or the new one.
func writeMetadata(dir string, m mounting.Metadata) error {
	content, err := m.Encode()
	if err != nil {
		return err
	}
	if err := makeDirs(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, mounting.DataFile)
	if have, err := os.ReadFile(path); err == nil && string(have) == string(content) {
		return nil
	}
	next := filepath.Join(dir, unfinished)
	if err := os.WriteFile(next, content, fileMode); err != nil {
		return fmt.Errorf("write the metadata of a volume: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("write the metadata of a volume: %w", err)
	}
	return nil
}

func readMetadata(dir string) (mounting.Metadata, error) {
	content, err := os.ReadFile(filepath.Join(dir, mounting.DataFile))
	if err != nil {
		return mounting.Metadata{}, err
	}
	m, err := mounting.ParseMetadata(content)
	if err != nil {
		return m, fmt.Errorf("%s: %w", filepath.Join(dir, mounting.DataFile), err)
	}
	return m, nil
}

// cleanPublication removes what belongs to a publication, and its record at the end. Nothing on
// which something is mounted goes.
func (a *Agent) cleanPublication(key mounting.Key, id mounting.ID) error {
	target := a.layout.Target(id)
	if mounted, err := mount.IsPoint(target); err != nil || mounted {
		return errors.Join(err, stillMounted(target, mounted))
	}
	remove := []func() error{removal(target)}
	if id.Mode == mounting.Filesystem {
		dir := a.layout.VolumeDir(id.Pod, id.Spec)
		remove = append(remove, func() error { return removeMetadata(dir) }, removal(dir))
	}
	if err := inOrder(remove...); err != nil {
		return err
	}
	a.change(key, func(r mounting.Record) mounting.Record { return r.WithoutPublication(id) })
	return nil
}

func stillMounted(path string, mounted bool) error {
	if !mounted {
		return nil
	}
	return fmt.Errorf("%s is still a mount point after the driver's answer; nothing is removed", path)
}

// cleanDevice removes what belongs to a device, and its record at the end.
func (a *Agent) cleanDevice(key mounting.Key, id mounting.DeviceID) error {
	path := a.layout.Stage(key, id)
	if mounted, err := mount.IsPoint(path); err != nil || mounted {
		return errors.Join(err, stillMounted(path, mounted))
	}
	data := a.layout.StageDir(key)
	remove := []func() error{removal(path)}
	if id.Mode == mounting.Block {
		data = a.layout.BlockData(id.Spec)
		remove = append(remove, removal(a.layout.BlockPublish(id.Spec)), removal(a.layout.BlockMaps(id.Spec)))
	}
	remove = append(remove, func() error { return removeMetadata(data) }, removal(data))
	if id.Mode == mounting.Block {
		remove = append(remove, removal(a.layout.BlockDir(id.Spec)))
	}
	if err := inOrder(remove...); err != nil {
		return err
	}
	a.change(key, func(r mounting.Record) mounting.Record { return r.WithoutDevice(id) })
	return nil
}

// removeEmpty removes an empty folder or file. What is not empty, and a mount point, stays and is an
// error.
func removeEmpty(path string) error {
	if err := mount.RemoveEmpty(path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// removal returns a step that removes an empty folder or file.
func removal(path string) func() error { return func() error { return removeEmpty(path) } }

// inOrder runs the steps up to the first that fails. The metadata goes after the folders on which a
// volume is mounted: what is left of a failure is found again by it.
func inOrder(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func removeMetadata(dir string) error {
	var errs []error
	for _, name := range []string{unfinished, mounting.DataFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func isBelow(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// unmountSubPaths unmounts what a kubelet has mounted of the volume for containers with a subPath
// (5.8).
func (a *Agent) unmountSubPaths(id mounting.ID) error {
	dir := filepath.Join(a.layout.Pod(id.Pod), "volume-subpaths", filepath.Base(a.layout.VolumeDir(id.Pod, id.Spec)))
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := mount.CleanBelow(dir); err != nil {
		return err
	}
	return removeTree(dir)
}

// removeTree removes empty folders and files below and including dir. It never enters a mount, and
// what is not empty stays.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		mounted, err := mount.IsPoint(path)
		if err != nil || mounted {
			return errors.Join(err, stillMounted(path, mounted))
		}
		if !entry.IsDir() {
			err = removeEmpty(path)
		} else {
			err = removeTree(path)
		}
		if err != nil {
			return err
		}
	}
	return removeEmpty(dir)
}
