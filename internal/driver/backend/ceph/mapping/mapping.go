package mapping

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Tools runs programs; a command.Runner.
type Tools interface {
	Run(context.Context, command.Call) ([]byte, error)
	Present(command.Program) error
}

// Image is an image that is to be, or is, a device here.
type Image struct {
	Pool, Name string
	// Dir is a folder for this image alone.
	Dir string
}

func (i Image) spec() string { return i.Pool + "/" + i.Name }

// Mapper makes devices of images.
type Mapper interface {
	// Name is used in errors and records.
	Name() string
	// Usable returns an error that names the missing part of this machine.
	Usable(context.Context) error
	// Map makes a device and gives its path.
	Map(ctx context.Context, image Image, access command.Access, mode Mode) (device string, err error)
	// Find gives the path of the device, "" when there is none.
	Find(ctx context.Context, image Image) (device string, err error)
	// Unmap takes the device away; fault.InUse while it is open. An image
	// that has none is not an error.
	Unmap(ctx context.Context, image Image) error
}

// Resizer is a Mapper whose devices do not see by themselves that their image
// grew.
type Resizer interface {
	Resized(ctx context.Context, image Image) error
}

// Mode is what may be done with a device.
type Mode int

// The modes.
const (
	ReadWrite Mode = iota
	ReadOnly
)

// Mappers returns all mappers, the best one first.
func Mappers(tools Tools) []Mapper {
	return []Mapper{
		&Kernel{Tools: tools, Sys: "/sys"},
		&NBD{Tools: tools, Sys: "/sys"},
		NewFuse(tools),
	}
}

// ErrNoMapper means that this machine cannot make devices of images.
var ErrNoMapper = errors.New("this machine cannot make block devices of RBD images")

// Choose returns the first mapper that is usable. Its error has what each of them
// is missing.
func Choose(ctx context.Context, mappers []Mapper) (Mapper, error) {
	var missing []string
	for _, mapper := range mappers {
		err := mapper.Usable(ctx)
		if err == nil {
			return mapper, nil
		}
		missing = append(missing, mapper.Name()+": "+err.Error())
	}
	return nil, fault.Unready.Errorf("%w; %s", ErrNoMapper, strings.Join(missing, "; "))
}

// Named returns the mapper of a record.
func Named(mappers []Mapper, name string) (Mapper, bool) {
	for _, mapper := range mappers {
		if mapper.Name() == name {
			return mapper, true
		}
	}
	return nil, false
}

// line reads a file of /sys.
func line(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
