package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Refs returns the other paths below dir at which the mount table shows what path shows. A path that
// does not exist has none.
func Refs(path, dir string) ([]string, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for mounts of %s: %w", path, err)
	}
	below, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for mounts below %s: %w", dir, err)
	}
	table, err := mountinfo.GetMounts(nil)
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	return refs(table, real, below), nil
}

func refs(table []*mountinfo.Info, path, dir string) []string {
	var on *mountinfo.Info // the mount that path is on; of several on one path the last
	for _, m := range table {
		isOn := m.Mountpoint == "/" || path == m.Mountpoint || strings.HasPrefix(path, m.Mountpoint+"/")
		if isOn && (on == nil || len(m.Mountpoint) >= len(on.Mountpoint)) {
			on = m
		}
	}
	if on == nil {
		return nil
	}
	root := filepath.Join(on.Root, strings.TrimPrefix(path, on.Mountpoint))
	var others []string
	for _, m := range table {
		same := m.Major == on.Major && m.Minor == on.Minor && m.Root == root
		if same && m.Mountpoint != path && strings.HasPrefix(m.Mountpoint, dir+"/") {
			others = append(others, m.Mountpoint)
		}
	}
	return others
}
