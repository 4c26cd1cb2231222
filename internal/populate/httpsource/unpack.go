package httpsource

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// unpackInto unpacks an archive into the root of a filesystem. An attempt that did not end is removed first:
// an archive is read from its begin.
func unpackInto(source Source, from *download, root *os.Root, limit int64) error {
	now := newState(source)
	last, err := readState(root)
	if err == nil && last != nil {
		err = removeUnpacked(root)
	}
	if err != nil {
		return err
	}
	if err := now.write(root); err != nil {
		return err
	}
	sum := sha256.New()
	read := &counted{from, sum}
	packed := io.Reader(bufio.NewReaderSize(read, 1<<20))
	if source.Format == formatTarGz {
		unzipped, err := gzip.NewReader(packed)
		if err != nil {
			return archiveError(err)
		}
		packed = unzipped
	}
	u := unpacking{root: root, left: limit, limit: limit, modes: map[string]fs.FileMode{}}
	if err := u.all(tar.NewReader(packed)); err != nil {
		return err
	}
	for _, rest := range []io.Reader{packed, read} { // the checksum is that of the whole file
		if err := skipPadding(rest); err != nil {
			return archiveError(err)
		}
	}
	if err := compare(source, sum); err != nil {
		return err
	}
	if err := u.setModes(); err != nil {
		return err
	}
	return errors.Join(syncRoot(root), removeState(root))
}

// longestPadding bounds what follows the end of an archive.
const longestPadding = 64 << 20

// skipPadding reads what follows the end of an archive.
func skipPadding(rest io.Reader) error {
	switch _, err := io.CopyN(io.Discard, rest, longestPadding+1); {
	case err == nil:
		return permanentError{fmt.Sprintf("more than %d bytes follow the end of the archive; give a file that ends "+
			"with it", longestPadding)}
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// counted passes what is read on to the checksum and the progress.
type counted struct {
	from *download
	sum  hash.Hash
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.sum.Write(p[:n])
	c.from.said()
	return n, err
}

// archiveError says that an archive cannot be read, unless its download failed.
func archiveError(err error) error {
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, tar.ErrHeader) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return fmt.Errorf("the archive cannot be read (%w); is spec.format right?", err)
	}
	return err
}

// unpacking writes the entries of an archive below a root, which no name and no link leads out of.
type unpacking struct {
	root        *os.Root
	left, limit int64                  // bytes that may be written; a limit of 0 is none
	modes       map[string]fs.FileMode // of folders, set at the end: files are created in them until then
}

func (u *unpacking) all(archive *tar.Reader) error {
	for {
		entry, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return archiveError(err)
		}
		if err := u.one(entry, archive); err != nil {
			return err
		}
	}
}

func (u *unpacking) one(entry *tar.Header, content io.Reader) error {
	name := path.Clean(strings.TrimPrefix(entry.Name, "./"))
	if name == "." {
		return nil
	}
	if first, _, _ := strings.Cut(name, "/"); !filepath.IsLocal(name) || isState(first) {
		return refusedEntry(entry, "its name leads out of the volume, or is that of the state")
	}
	if parent := path.Dir(name); parent != "." {
		if err := u.root.MkdirAll(parent, 0o755); err != nil {
			return entryError(entry, err)
		}
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		u.modes[name] = entry.FileInfo().Mode().Perm()
		return entryError(entry, u.root.MkdirAll(name, 0o755))
	case tar.TypeReg:
		return u.file(name, entry, content)
	case tar.TypeSymlink:
		return entryError(entry, u.replace(name, func() error { return u.root.Symlink(entry.Linkname, name) }))
	case tar.TypeLink:
		target := path.Clean(strings.TrimPrefix(entry.Linkname, "./"))
		if !filepath.IsLocal(target) {
			return refusedEntry(entry, "it links to a name out of the volume")
		}
		return entryError(entry, u.replace(name, func() error { return u.root.Link(target, name) }))
	case tar.TypeXGlobalHeader:
		return nil
	}
	return refusedEntry(entry, fmt.Sprintf("it is no file, no folder and no link but of type %q", entry.Typeflag))
}

// file writes a file. Bits that give the rights of its owner are left out: the owner is root.
func (u *unpacking) file(name string, entry *tar.Header, content io.Reader) error {
	if u.limit > 0 && entry.Size > u.left {
		return permanentError{fmt.Sprintf("the unpacked archive has more than the %d bytes of the volume; ask for "+
			"more in spec.resources.requests.storage of the claim", u.limit)}
	}
	u.left -= entry.Size
	return entryError(entry, u.replace(name, func() error {
		file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Chmod(entry.FileInfo().Mode().Perm()), file.Close())
	}))
}

// replace removes what has the name, as tar does, unless it is a folder.
func (u *unpacking) replace(name string, create func() error) error {
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return create()
}

func (u *unpacking) setModes() error {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(u.modes))) { // a folder after those in it
		if err := u.root.Chmod(name, u.modes[name]); err != nil {
			return err
		}
	}
	return nil
}

func refusedEntry(entry *tar.Header, why string) error {
	return permanentError{fmt.Sprintf("the entry %q of the archive is refused: %s", entry.Name, why)}
}

func entryError(entry *tar.Header, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the entry %q of the archive: %w", entry.Name, err)
}

// removeUnpacked removes what an attempt has unpacked. Folders may have been made read-only at its end.
func removeUnpacked(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == "lost+found" || entry.Name() == stateFile {
			continue
		}
		if entry.IsDir() {
			if err := makeWritable(root, entry.Name()); err != nil {
				return err
			}
		}
		if err := root.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

// makeWritable has the owner write to a folder and to those below.
func makeWritable(root *os.Root, folder string) error {
	return fs.WalkDir(root.FS(), folder, func(name string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() && err == nil {
			return root.Chmod(name, 0o755)
		}
		return err
	})
}
