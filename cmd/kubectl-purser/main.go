// Command kubectl-purser is the plugin `kubectl purser`: the commands of purser that users and
// administrators call, for every system that kubectl runs on.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/roles/mcp"
	"github.com/purser-csi/purser/internal/roles/plugin"
)

// version is set by the linker.
var version = "v0.0.0-dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	root := command()
	args, _ := plugin.Called(os.Args[0], os.Args[1:])
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	code, isTold := plugin.ExitCode(err)
	if !isTold {
		fmt.Fprintln(os.Stderr, "kubectl purser:", explain.ErrorText(err))
	}
	return code
}

func command() *cobra.Command {
	streams := explain.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	return plugin.New(streams, version, mcp.New(streams))
}
