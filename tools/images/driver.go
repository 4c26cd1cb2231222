package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// driverImage is the image with the programs that the driver runs.
const driverImage = "purser-driver"

// driverPrograms are run by the driver on volumes in image files (docs/driver.md).
var driverPrograms = []string{
	"blkid", "mkfs.ext4", "mkfs.ext3", "e2fsck", "fsck", "resize2fs", "tune2fs", "mkfs.xfs", "xfs_repair", "xfs_growfs", "xfs_io", "xfs_admin",
	"mkfs.btrfs", "btrfs", "mount", "umount", "losetup", "fsfreeze", "nsenter",
}

// writeDriver writes the image of the driver: the layer of the packages, and that of the binary.
func (o options) writeDriver(binaries map[string]v1.Layer) error {
	text, err := os.ReadFile(o.lock)
	if err != nil {
		return err
	}
	packages, err := readLock(text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.lock, err)
	}
	layers := map[string][]v1.Layer{}
	for _, arch := range architectures {
		files := map[string]entry{}
		for _, p := range packages {
			if p.arch != arch {
				continue
			}
			if err := p.unpack(o.packages, files); err != nil {
				return err
			}
		}
		addBase(files)
		if err := checkPrograms(files, driverPrograms); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		layer, err := o.layerOf(files)
		if err != nil {
			return err
		}
		layers[arch] = []v1.Layer{layer, binaries[arch]}
		if err := o.writePackagesSBOM(arch, packages); err != nil {
			return err
		}
	}
	index, err := o.index(driverImage, layers)
	if err != nil {
		return err
	}
	_, err = layout.Write(filepath.Join(o.out, driverImage), index)
	return err
}

// addBase adds what no package has: the links of a merged /usr, and folders to work in.
func addBase(files map[string]entry) {
	for _, folder := range []string{"bin", "sbin", "lib", "lib64"} {
		files[folder] = entry{header: tar.Header{
			Name:     folder,
			Typeflag: tar.TypeSymlink,
			Linkname: "usr/" + folder,
			Mode:     0o777,
		}}
	}
	for folder, mode := range map[string]int64{"tmp": 0o1777, "run": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "usr/lib64": 0o755} {
		files[folder] = entry{header: tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: mode}}
	}
	files["etc/mtab"] = entry{header: tar.Header{
		Name:     "etc/mtab",
		Typeflag: tar.TypeSymlink,
		Linkname: "../proc/self/mounts",
		Mode:     0o777,
	}}
	for of := range maps.Clone(files) {
		for folder := path.Dir(of); folder != "."; folder = path.Dir(folder) {
			if _, ok := files[folder]; !ok {
				files[folder] = entry{header: tar.Header{Name: folder + "/", Typeflag: tar.TypeDir, Mode: 0o755}}
			}
		}
	}
}

// layerOf writes the entries in the order of their paths.
func (o options) layerOf(files map[string]entry) (v1.Layer, error) {
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	names := slices.Sorted(maps.Keys(files))
	// A hard link needs its target before it.
	slices.SortStableFunc(names, func(a, b string) int {
		return int(files[a].header.Typeflag&1) - int(files[b].header.Typeflag&1)
	})
	for _, name := range names {
		e := files[name]
		h := e.header
		h.Size, h.ModTime, h.Format = int64(len(e.content)), o.created, tar.FormatPAX
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return layerFrom(content.Bytes())
}

// checkPrograms fails when a program that the driver runs, or a library that it needs, is missing.
func checkPrograms(files map[string]entry, programs []string) error {
	has := map[string]string{} // path by file name
	for name := range files {
		has[path.Base(name)] = name
	}
	seen := map[string]bool{}
	for queue := slices.Clone(programs); len(queue) > 0; queue = queue[1:] {
		name, ok := has[queue[0]]
		if !ok {
			return fmt.Errorf("%s is in no package of the lock file", queue[0])
		}
		for hops := 0; files[name].header.Linkname != "" && hops < 5; hops++ {
			target := files[name].header.Linkname
			if files[name].header.Typeflag == tar.TypeSymlink && !path.IsAbs(target) {
				target = path.Join(path.Dir(name), target)
			}
			name = merged(strings.TrimPrefix(target, "/"))
		}
		if seen[name] || !bytes.HasPrefix(files[name].content, []byte(elf.ELFMAG)) {
			continue
		}
		seen[name] = true
		f, err := elf.NewFile(bytes.NewReader(files[name].content))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		needed, err := f.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		queue = append(queue, needed...)
	}
	return nil
}
