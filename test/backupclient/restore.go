package backupclient

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
)

// Restore copies blocks of a snapshot into a backup, which gets the size of the snapshot.
func Restore(backup, snapshot string, blocks []Block) error {
	from, err := os.Open(snapshot)
	if err != nil {
		return err
	}
	defer from.Close()
	into, err := os.OpenFile(backup, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := from.Stat()
	if err == nil {
		err = into.Truncate(info.Size())
	}
	for _, b := range blocks {
		if err != nil {
			break
		}
		_, err = io.Copy(io.NewOffsetWriter(into, b.Offset), io.NewSectionReader(from, b.Offset, b.Size))
	}
	return errors.Join(err, into.Close())
}

// Checksum returns the checksum of a file.
func Checksum(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}
