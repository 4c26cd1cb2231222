// Command kubectl-purser is the plugin `kubectl purser`: the commands of purser that read a cluster
// and say why a claim is stuck, for every system that kubectl runs on.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/roles/mcp"
)

// version is set by the linker.
var version = "v0.0.0-dev"

// exitUnknown is the exit code of explain for an unknown state.
const exitUnknown = 2

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	err := command().ExecuteContext(ctx)
	if told, ok := errors.AsType[explain.ExitError](err); ok {
		return told.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubectl purser:", explain.ErrorText(err))
		return exitUnknown
	}
	return 0
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-purser",
		Short: "Say why a claim, volume or pod is not getting on",
		Long: "Reads a cluster, with or without Purser in it, or a dump, and says why a claim, volume or " +
			"pod is not getting on.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl purser"},
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return cli.UnknownCommand(c, "command", args[0])
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	streams := explain.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	root.AddCommand(explain.New(streams)...)
	root.AddCommand(mcp.New(streams), cli.VersionCommand(version))
	root.SetFlagErrorFunc(cli.FlagError)
	for _, c := range root.Commands() { // the commands are the same as those of purser
		c.Example = strings.ReplaceAll(c.Example, "  purser ", "  "+root.DisplayName()+" ")
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	return root
}
