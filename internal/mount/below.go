package mount

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mountTable lists the mounts of this process's namespace, see proc(5).
const mountTable = "/proc/self/mountinfo"

// Below lists what is mounted below dir, deepest first. What is mounted on
// dir itself does not count. A dir that does not exist has nothing below it.
func Below(dir string) ([]string, error) {
	root, err := realRoot(dir)
	if err != nil || root == "" {
		return nil, err
	}
	table, err := os.Open(mountTable)
	if err != nil {
		return nil, fmt.Errorf("open the mount table: %w", err)
	}
	defer table.Close()
	return mountsBelow(table, root)
}

// realRoot gives the path that the mount table would show for dir, or "" when
// there is no such directory.
func realRoot(dir string) (string, error) {
	clean := filepath.Clean(dir)
	if !filepath.IsAbs(clean) {
		return "", fmt.Errorf("mounts below %q: give an absolute path", dir)
	}
	root, err := filepath.EvalSymlinks(clean)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("resolve %s: %w", dir, err)
	}
	if root == "/" {
		return "", fmt.Errorf("mounts below %q: that is everything; give a folder other than /", dir)
	}
	return root, nil
}

// mountsBelow reads a mount table. The order is the one in which the mounts
// can be undone: deeper paths first. A path on which mounts are stacked is
// listed once for each.
func mountsBelow(table io.Reader, root string) ([]string, error) {
	infos, err := mountinfo.GetMountsFromReader(table, func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Mountpoint, root+"/"), false
	})
	if err != nil {
		return nil, fmt.Errorf("read the mount table: %w", err)
	}
	slices.SortStableFunc(infos, func(a, b *mountinfo.Info) int {
		return cmp.Compare(strings.Count(b.Mountpoint, "/"), strings.Count(a.Mountpoint, "/"))
	})
	paths := make([]string, 0, len(infos))
	for _, info := range infos {
		paths = append(paths, info.Mountpoint)
	}
	return paths, nil
}

// CleanBelow unmounts everything that is mounted below dir and says what it
// removed, also when it returns an error. It removes no file and no
// directory, and nothing outside dir is touched.
//
// It goes in rounds: a mount that lies hidden under a younger one cannot be
// reached before that one is gone.
func CleanBelow(dir string) (removed []string, err error) {
	for {
		paths, err := Below(dir)
		if err != nil || len(paths) == 0 {
			return removed, err
		}
		gone, err := detachAll(paths)
		removed = append(removed, gone...)
		if len(gone) == 0 {
			return removed, err
		}
	}
}

func detachAll(paths []string) (gone []string, err error) {
	var failures []error
	for _, path := range paths {
		if err := detach(path); err != nil {
			failures = append(failures, err)
			continue
		}
		gone = append(gone, path)
	}
	return gone, errors.Join(failures...)
}

// detach unmounts, and where a process still has files open it at least takes
// the mount out of the tree: the caller is about to remove the folder, and a
// shell left standing in it must not keep it alive.
func detach(path string) error {
	err := unmount(path)
	if errors.Is(err, ErrBusy) {
		if err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH); err != nil {
			return fmt.Errorf("detach the busy mount %s: %w", path, err)
		}
		return nil
	}
	return err
}
