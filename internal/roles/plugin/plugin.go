package plugin

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/daytwo"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/roles/ui"
)

const (
	// Name is the program that kubectl looks for.
	Name = "kubectl-purser"
	// completer is the program that kubectl calls to complete the arguments of the plugin.
	completer = "kubectl_complete-purser"
)

// exitUnknown is the exit code where the state of what was asked for is unknown.
const exitUnknown = 2

// Called reports whether a program is called as the plugin or to complete its arguments, and
// returns the arguments for [New].
func Called(program string, args []string) ([]string, bool) {
	switch strings.TrimSuffix(filepath.Base(program), ".exe") {
	case Name:
		return args, true
	case completer:
		return append([]string{cobra.ShellCompRequestCmd}, args...), true
	}
	return args, false
}

// New returns the command of the plugin. more are further commands.
func New(streams explain.Streams, version string, more ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   Name,
		Short: "Say why a claim, volume or pod is not getting on, and look after volumes",
		Long: `Reads a cluster, with or without Purser in it, or a dump, and says why a claim,
volume or pod is not getting on; and does what volumes need after their first
day: usage, orphans, growth, checks.`,
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
	root.AddCommand(explain.New(streams)...)
	root.AddCommand(ui.New(streams)...)
	root.AddCommand(daytwo.New(streams)...)
	root.AddCommand(cli.VersionCommand(version), completion())
	root.AddCommand(more...)
	root.SetOut(streams.Out)
	root.SetFlagErrorFunc(cli.FlagError)
	for _, c := range root.Commands() {
		rename(c)
	}
	return root
}

// ExitCode returns the exit code of an error of the command, and whether it has been printed.
func ExitCode(err error) (code int, isTold bool) {
	if err == nil {
		return 0, true
	}
	if answer, ok := errors.AsType[explain.ExitError](err); ok {
		return answer.ExitCode(), answer.IsTold()
	}
	return exitUnknown, false
}

// own is a command of the program purser in a text. Roles and paths keep their names.
var own = regexp.MustCompile(`(^|[\s('"|])purser ((?:explain|tree|life|dump|record|mcp|df|orphans|grow|check|unused|` +
	`completion|version)\b)`)

// rename has the texts of a command, which are the same as those of purser, say the name of the
// plugin.
func rename(c *cobra.Command) {
	plugin := func(text string) string { return own.ReplaceAllString(text, "${1}kubectl purser $2") }
	c.Short, c.Long, c.Example = plugin(c.Short), plugin(c.Long), plugin(c.Example)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = plugin(f.Usage) })
}

// completion returns the command that prints the program that kubectl calls to complete arguments.
func completion() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion",
		Short: "Print the program by which kubectl completes the arguments of this plugin",
		Long: `Prints a shell script. On the PATH under the name kubectl_complete-purser it has
kubectl's own completion complete the commands, flags, kinds and names of this
plugin, in every shell that 'kubectl completion' knows. A link of that name to
kubectl-purser does the same.`,
		Example: `  kubectl purser completion > ~/bin/kubectl_complete-purser
  chmod +x ~/bin/kubectl_complete-purser`,
		Args: cli.NoArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write([]byte(
				"#!/bin/sh\nexec " + Name + " " + cobra.ShellCompRequestCmd + " \"$@\"\n",
			))
			return err
		},
	}
	cli.SetExitCodes(
		c, cli.ExitCode{Number: 0, Means: "printed"}, cli.ExitCode{Number: exitUnknown, Means: "arguments"},
	)
	return c
}
