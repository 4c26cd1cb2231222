package mapping

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// NBD maps with the daemon rbd-nbd and the kernel's network block device.
type NBD struct {
	Tools Tools
	// Sys is where sysfs is mounted.
	Sys string
}

// Name implements Mapper.
func (n *NBD) Name() string { return "rbd-nbd" }

// Usable implements Mapper.
func (n *NBD) Usable(context.Context) error {
	if _, err := os.Stat(filepath.Join(n.Sys, "block", "nbd0")); err != nil {
		return fmt.Errorf("the kernel has no nbd (modprobe nbd): %w", err)
	}
	return n.Tools.Present(command.RBDNBD)
}

// Map implements Mapper.
func (n *NBD) Map(ctx context.Context, image Image, access command.Access, mode Mode) (string, error) {
	arguments := []string{"map", image.spec()}
	if mode == ReadOnly {
		arguments = append(arguments, "--read-only")
	}
	out, err := n.Tools.Run(
		ctx,
		command.Call{Program: command.RBDNBD, Access: access, Arguments: arguments, Target: image.spec()},
	)
	return strings.TrimSpace(string(out)), err
}

// Find implements Mapper. The program looks through the processes of this
// machine and does not ask the cluster.
func (n *NBD) Find(ctx context.Context, image Image) (string, error) {
	if _, err := os.Stat(filepath.Join(n.Sys, "block", "nbd0")); err != nil {
		return "", nil //nolint:nilerr // The kernel has no such devices.
	}
	if err := n.Tools.Present(command.RBDNBD); err != nil {
		return "", err // it may have mapped some before it was taken away
	}
	out, err := n.Tools.Run(
		ctx,
		command.Call{Program: command.RBDNBD, Arguments: []string{"list-mapped", "--format=json"}},
	)
	if err != nil {
		return "", err
	}
	var all []struct {
		Pool   string `json:"pool"`
		Image  string `json:"image"`
		Snap   string `json:"snap"`
		Device string `json:"device"`
	}
	if len(strings.TrimSpace(string(out))) == 0 {
		return "", nil
	}
	if err := json.Unmarshal(out, &all); err != nil {
		return "", fault.Internal.Errorf("rbd-nbd list-mapped answered what this program cannot read: %w", err)
	}
	for _, one := range all {
		if one.Pool == image.Pool && one.Image == image.Name && (one.Snap == "" || one.Snap == "-") {
			return one.Device, nil
		}
	}
	return "", nil
}

// Unmap implements Mapper.
func (n *NBD) Unmap(ctx context.Context, image Image) error {
	device, err := n.Find(ctx, image)
	if err != nil || device == "" {
		return err
	}
	_, err = n.Tools.Run(
		ctx,
		command.Call{Program: command.RBDNBD, Arguments: []string{"unmap", device}, Target: image.spec()},
	)
	return err
}
