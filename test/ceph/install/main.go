// The program install puts Ceph on this machine for the tests, where it is
// absent: with the packages of Debian, which takes root and 250 MB of disk.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"github.com/purser-csi/purser/test/ceph/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := install(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func install(ctx context.Context) error {
	missing := cluster.Missing()
	if missing == "" {
		return nil
	}
	fmt.Println(missing)
	if os.Geteuid() != 0 {
		return errors.New("needs root to install packages")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("no Debian: %w; install the programs in the way of this system", err)
	}
	for _, arguments := range [][]string{
		{"update", "-qq"},
		append([]string{"install", "-qq", "--yes", "--no-install-recommends"}, cluster.Packages...),
	} {
		command := exec.CommandContext(ctx, "apt-get", arguments...)
		command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		command.Stdout, command.Stderr = os.Stdout, os.Stderr
		if err := command.Run(); err != nil {
			return fmt.Errorf("apt-get %s: %w", arguments[0], err)
		}
	}
	if missing := cluster.Missing(); missing != "" {
		return errors.New(missing)
	}
	return nil
}
