package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/datasource"
	"github.com/purser-csi/purser/internal/roles/daytwo"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/roles/healthmonitor"
	"github.com/purser-csi/purser/internal/roles/livenessprobe"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/internal/roles/plane"
	"github.com/purser-csi/purser/internal/roles/plugin"
	"github.com/purser-csi/purser/internal/roles/populator"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/registrar"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecars"
	"github.com/purser-csi/purser/internal/roles/snapshotmetadata"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/roles/ui"
	"github.com/purser-csi/purser/internal/roles/up"
)

// ExitCode is upstream's for an error of [Execute]: 2 for a command line that cannot be parsed
// (CL-2), 255 for an unknown feature gate (CL-5), and 1 for values that are refused (CL-4) as for
// every failure at work.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, unknown := errors.AsType[cli.UnknownGateError](err); unknown {
		return 255
	}
	if answer, isExit := errors.AsType[explain.ExitError](err); isExit {
		return answer.ExitCode()
	}
	if _, unparsed := errors.AsType[cli.SyntaxError](err); unparsed {
		return 2
	}
	return 1
}

// IsTold reports whether the command has printed the error already.
func IsTold(err error) bool {
	answer, isAnswer := errors.AsType[explain.ExitError](err)
	return isAnswer && answer.IsTold()
}

// Execute runs the role of the command line until the role or ctx ends.
func Execute(ctx context.Context, p cli.Program) error {
	if args, isPlugin := plugin.Called(p.Name, p.Args); isPlugin {
		return executePlugin(ctx, p, args)
	}
	root := newRoot(p)
	if called := filepath.Base(p.Name); isRole(root, called) {
		p.Args = append([]string{called}, p.Args...)
	}
	p.Args = withDoubleDashes(root, p.Args)
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownTopic
	}
	for _, c := range root.Commands() {
		cli.AddVersionFlag(c)
	}
	root.SetArgs(p.Args)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return root.ExecuteContext(ctx)
}

// executePlugin runs this program as the plugin `kubectl purser`, by whose name it is called.
func executePlugin(ctx context.Context, p cli.Program, args []string) error {
	root := plugin.New(explain.Streams{In: os.Stdin, Out: p.Out, Err: p.Err}, p.Version)
	root.SetArgs(args)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	if code, isTold := plugin.ExitCode(err); !isTold {
		return explain.ExitError{Code: code, Err: err}
	}
	return err
}

// withDoubleDashes accepts flags with one dash for roles whose upstream does, see [cli.SingleDash].
func withDoubleDashes(root *cobra.Command, args []string) []string {
	for _, c := range root.Commands() {
		if len(args) > 0 && isNamed(c, args[0]) && c.Annotations[cli.SingleDash] != "" {
			return append([]string{args[0]}, cli.DoubleDashes(args[1:])...)
		}
	}
	return args
}

func isRole(root *cobra.Command, name string) bool {
	return slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return isNamed(c, name) })
}

// isNamed reports whether a command has the name, or is called so by the image that it replaces.
func isNamed(c *cobra.Command, name string) bool { return c.Name() == name || c.HasAlias(name) }

func newRoot(p cli.Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "purser",
		Short: "The Kubernetes volume plane in one program",
		Long: `Purser is the Kubernetes volume plane in one program with several roles. The
role is the first argument, or the name of the program.`,
		Example: `  # a whole development cluster with storage, in one terminal
  purser up

  # the same around a driver of your own
  purser up --csi-address unix:///tmp/my-driver.sock`,
		Version:       p.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownRole,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddGroup(
		&cobra.Group{ID: cli.GroupTry, Title: "To try it:"},
		&cobra.Group{ID: cli.GroupAsk, Title: "To ask why:"},
		&cobra.Group{ID: cli.GroupKeep, Title: "To look after volumes:"},
		&cobra.Group{ID: cli.GroupRun, Title: "To run in a cluster:"},
	)
	addRoles(root, p)
	// These take arguments, and end at the first mistake.
	streams := explain.Streams{In: os.Stdin, Out: p.Out, Err: p.Err}
	for group, commands := range map[string][]*cobra.Command{
		cli.GroupAsk: slices.Concat(
			explain.New(streams), ui.New(streams), []*cobra.Command{cli.VersionCommand(p.Version)},
		),
		cli.GroupKeep: daytwo.New(streams),
		cli.GroupTry:  {cli.CompletionCommand()},
	} {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	root.SetUsageFunc(writeUsage)
	root.SetFlagErrorFunc(cli.FlagError)
	return root
}

// addRoles adds the commands that run a role.
func addRoles(root *cobra.Command, p cli.Program) {
	root.AddCommand(
		up.Command(p),
		driver.Command(p),
		provisioner.Command(p),
		controllers.Command(p),
		plane.Command(p),
		sidecars.Command(p),
		resizer.Command(p),
		attacher.Command(p),
		snapshotter.Command(p),
		snapshotter.ControllerCommand(p),
		registrar.Command(p),
		livenessprobe.Command(p),
		datasource.Command(p),
		healthmonitor.Command(p),
		snapshotmetadata.Command(p),
		populator.Command(p),
		node.Command(p),
	)
	root.AddCommand(up.PauseCommand(), populator.PodCommand(p))
	for _, c := range root.Commands() {
		cli.CollectMistakes(c.Flags())
		cli.SetRoleExitCodes(c)
	}
}

// knownRole refuses a first argument that is not a role.
func knownRole(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return cli.UnknownCommand(c, "role", args[0])
}

// knownTopic refuses help about an unknown role; cobra would print the help of all roles.
func knownTopic(c *cobra.Command, args []string) error {
	if len(args) == 0 || isRole(c.Root(), args[0]) {
		return nil
	}
	return knownRole(c.Root(), args)
}

// writeUsage writes how to call a command, with flags wrapped at 80 columns. It is a function since
// a template of cobra needs package text/template: docs/design.md.
func writeUsage(c *cobra.Command) error {
	var text strings.Builder
	line := func(format string, values ...any) { fmt.Fprintf(&text, format, values...) }
	if c.HasAvailableSubCommands() {
		line("Usage:\n  %s ROLE [flags]", c.CommandPath())
	} else {
		line("Usage:\n  %s", c.UseLine())
	}
	if c.HasExample() {
		line("\n\nExamples:\n%s", c.Example)
	}
	for _, group := range c.Groups() {
		line("\n\n%s", group.Title)
		for _, role := range c.Commands() {
			if role.GroupID == group.ID && role.IsAvailableCommand() {
				line("\n  %-*s %s", role.NamePadding(), role.Name(), role.Short)
			}
		}
	}
	if c.HasAvailableLocalFlags() {
		line("\n%s", cli.FlagHelp(c.LocalFlags()))
	}
	if c.HasAvailableSubCommands() {
		line("\n\n'purser ROLE --help' says more about a role.")
	}
	line("\n")
	_, err := io.WriteString(c.OutOrStderr(), text.String())
	return err
}
