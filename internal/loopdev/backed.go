package loopdev

import (
	"errors"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// gone is what the kernel puts behind the path of an image that it could not
// find again, as happens when the daemon of its filesystem has ended.
const gone = " (deleted)"

// BackedBy opens the device whose image has this path in the kernel's eyes;
// nil when there is none. It is for images on a filesystem that does not
// answer: the kernel would have to ask it for the inode.
func BackedBy(path string) (*Device, error) {
	numbers, err := attachedNumbers()
	if err != nil {
		return nil, err
	}
	for _, number := range numbers {
		if strings.TrimSuffix((&Device{number: number}).BackingPath(), gone) != path {
			continue
		}
		device, err := open(number)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENXIO) {
			return nil, nil //nolint:nilnil // It went away meanwhile, so there is none.
		}
		return device, err
	}
	return nil, nil //nolint:nilnil // None is no error, as with Find.
}
