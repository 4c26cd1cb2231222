package httpsource

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncRoot flushes the filesystem of a root.
func syncRoot(root *os.Root) error {
	folder, err := root.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(folder.Fd())))
}
