// Command purser is the Kubernetes volume plane in one program. The role is its first argument, or
// the name it is called by.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/purser-csi/purser/internal/roles"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/explain"
)

// version is set by the linker.
var version = "v0.0.0-dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once, and with it its children
	err := roles.Execute(ctx, cli.Program{
		Name: os.Args[0], Args: os.Args[1:], Version: version, Out: os.Stdout, Err: os.Stderr,
	})
	if err != nil && !roles.IsTold(err) {
		fmt.Fprintln(os.Stderr, "purser:", explain.ErrorText(err))
	}
	return roles.ExitCode(err)
}
