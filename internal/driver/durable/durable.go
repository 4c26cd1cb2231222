package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// TempPrefix begins the names of the files that a killed WriteFile leaves.
const TempPrefix = "file-"

// WriteFile makes or replaces the file at path. The bytes are collected in a
// file below tempDir, which must be on the same filesystem: a process that lists the
// directory of path never sees half a file.
func WriteFile(path, tempDir string, data []byte) error {
	temp, err := os.CreateTemp(tempDir, TempPrefix+"*")
	if err != nil {
		return fmt.Errorf("make a temporary file: %w", err)
	}
	if err := fill(temp, data); err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	if err := Rename(temp.Name(), path); err != nil {
		return errors.Join(err, removeIfThere(temp.Name()))
	}
	return nil
}

// Shorten replaces the content of a file by one that is not longer, in place: it makes no file and
// needs no block, so it works on a full filesystem. Spaces fill the rest, which a reader of JSON
// ignores. One write of this size is whole or absent after a kill; a power loss may damage it.
func Shorten(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && info.Size() < int64(len(data)) {
		err = fmt.Errorf("%s has %d bytes, and the new content %d", path, info.Size(), len(data))
	}
	if err == nil {
		padded := append(slices.Clone(data), bytes.Repeat([]byte{' '}, int(info.Size())-len(data))...)
		_, err = file.WriteAt(padded, 0)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// fill writes and closes the file.
func fill(file *os.File, data []byte) error {
	_, err := file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// Rename moves a file or directory. When it returns, the new name survives a
// power loss and the old one does not come back.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return SyncDir(filepath.Dir(from))
}

// Remove deletes a file for good. A file that is not there is not an error.
func Remove(path string) error {
	if err := removeIfThere(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncDir makes the entries of a directory survive a power loss.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
