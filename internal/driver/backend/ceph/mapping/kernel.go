package mapping

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// Kernel maps with the kernel's client.
type Kernel struct {
	Tools Tools
	// Sys is where sysfs is mounted.
	Sys string
}

// Name implements Mapper.
func (k *Kernel) Name() string { return "krbd" }

func (k *Kernel) bus() string { return filepath.Join(k.Sys, "bus", "rbd") }

// Usable implements Mapper.
func (k *Kernel) Usable(context.Context) error {
	if _, err := os.Stat(k.bus()); err != nil {
		return fmt.Errorf("the kernel has no rbd (modprobe rbd): %w", err)
	}
	return k.Tools.Present(command.RBD)
}

// Map implements Mapper. The driver does not wait for udev, which a container
// does not have.
func (k *Kernel) Map(ctx context.Context, image Image, access command.Access, mode Mode) (string, error) {
	arguments := []string{"device", "map", image.spec(), "--device-type=krbd", "--options=noudev"}
	if mode == ReadOnly {
		arguments = append(arguments, "--read-only")
	}
	out, err := k.Tools.Run(
		ctx,
		command.Call{Program: command.RBD, Access: access, Arguments: arguments, Target: image.spec()},
	)
	return strings.TrimSpace(string(out)), err
}

// Find implements Mapper. It asks the kernel, not a program that could hang.
func (k *Kernel) Find(_ context.Context, image Image) (string, error) {
	devices := filepath.Join(k.bus(), "devices")
	entries, err := os.ReadDir(devices)
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fault.Internal.Errorf("list the mapped images: %w", err)
	}
	for _, entry := range entries {
		dir := filepath.Join(devices, entry.Name())
		if line(filepath.Join(dir, "pool")) == image.Pool && line(filepath.Join(dir, "name")) == image.Name &&
			line(filepath.Join(dir, "current_snap")) == "-" {
			return "/dev/rbd" + entry.Name(), nil
		}
	}
	return "", nil
}

// Unmap implements Mapper.
func (k *Kernel) Unmap(ctx context.Context, image Image) error {
	device, err := k.Find(ctx, image)
	if err != nil || device == "" {
		return err
	}
	_, err = k.Tools.Run(ctx, command.Call{
		Program: command.RBD, Arguments: []string{"device", "unmap", device, "--device-type=krbd", "--options=noudev"}, Target: image.spec(),
	})
	return err
}
