package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/roles/explain"
)

// Program is what main hands over.
type Program struct {
	Name    string // argv[0]; a role's name there picks the role, so that one image serves as many
	Args    []string
	Version string
	Out     io.Writer
	Err     io.Writer
}

// UsageError is a value in the command line that is refused, as opposed to a failure at work.
type UsageError struct{ error }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.error }

// syntaxError is a command line that cannot be parsed.
type syntaxError struct{ error }

// Unwrap returns what is wrong.
func (e syntaxError) Unwrap() error { return e.error }

// ExitCode is upstream's for an error of [Execute]: 2 for a command line that cannot be parsed (CL-2), 255 for a feature gate that
// nobody knows (CL-5), and 1 for values that are refused (CL-4) as for every failure at work.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if _, unknown := errors.AsType[unknownGateError](err); unknown {
		return 255
	}
	if answer, told := errors.AsType[explain.ExitError](err); told {
		return answer.ExitCode()
	}
	if _, unparsed := errors.AsType[syntaxError](err); unparsed {
		return 2
	}
	return 1
}

// IsTold reports whether all that the error has to say was printed already.
func IsTold(err error) bool {
	_, told := errors.AsType[explain.ExitError](err)
	return told
}

// Execute runs the role that the command line asks for, until it ends or ctx does.
func Execute(ctx context.Context, p Program) error {
	root := newRoot(p)
	if called := filepath.Base(p.Name); isRole(root, called) {
		p.Args = append([]string{called}, p.Args...)
	}
	if len(p.Args) > 0 && slices.Contains(goFlagRoles, p.Args[0]) {
		p.Args = append(p.Args[:1:1], withTwoDashes(p.Args[1:])...)
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = knownTopic
	}
	root.SetArgs(p.Args)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	return root.ExecuteContext(ctx)
}

func isRole(root *cobra.Command, name string) bool {
	for _, c := range root.Commands() {
		if c.Name() == name {
			return true
		}
	}
	return false
}

func newRoot(p Program) *cobra.Command {
	root := &cobra.Command{
		Use:   "purser",
		Short: "The Kubernetes volume plane in one program",
		Long: `Purser provisions persistent volumes for Kubernetes through CSI drivers.

It is one program with several roles. The role is the first argument, or the
name that the program is called by.`,
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
	root.AddGroup(&cobra.Group{ID: groupTry, Title: "To try it:"}, &cobra.Group{ID: groupAsk, Title: "To ask why:"}, &cobra.Group{ID: groupRun, Title: "To run in a cluster:"})
	root.AddCommand(newUp(p), newDriver(p), newProvisioner(p), newControllers(p), newPlane(p), newResizer(p))
	for _, c := range root.Commands() {
		patiently(c.Flags())
	}
	for _, c := range explain.New(explain.Streams{In: os.Stdin, Out: p.Out}) { // these take arguments, and one mistake is told at once
		c.GroupID = groupAsk
		root.AddCommand(c)
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetUsageTemplate(usage)
	cobra.AddTemplateFunc("flagHelp", flagHelp)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return syntaxError{fmt.Errorf("%w; see '%s --help'", err, c.CommandPath())}
	})
	return root
}

const (
	groupTry = "try"
	groupAsk = "ask"
	groupRun = "run"
)

// role is what the commands have in common.
type role interface {
	// Validate lists every mistake in the configuration.
	Validate() error
	// Run works until ctx ends, which is no error.
	Run(ctx context.Context) error
}

// run validates and runs a role as the body of a command.
func run(r role) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		unread := unread(c.Flags())
		if err := errors.Join(unread, r.Validate()); err != nil {
			err = fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
			if unread != nil {
				return syntaxError{err}
			}
			return UsageError{err}
		}
		err := r.Run(c.Context())
		if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
			return nil
		}
		return err
	}
}

// knownRole is asked when the first argument is no role. Without it cobra's own error would not count as a mistake in the command line.
func knownRole(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return syntaxError{fmt.Errorf("unknown role %q; see '%s --help'", args[0], c.CommandPath())}
}

// knownTopic does the same for what help is asked about, which cobra answers with the help of all.
func knownTopic(c *cobra.Command, args []string) error {
	if len(args) == 0 || isRole(c.Root(), args[0]) {
		return nil
	}
	return knownRole(c.Root(), args)
}

// noArguments refuses what is not a flag, which is most often a flag without its dashes.
func noArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return syntaxError{fmt.Errorf("unexpected argument %q: %s takes flags only; see '%s --help'", args[0], c.Name(), c.CommandPath())}
}

// usage is cobra's page with flags wrapped at 80 columns.
const usage = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} ROLE [flags]{{else}}{{.UseLine}}{{end}}
{{- if .HasExample}}

Examples:
{{.Example}}{{end}}
{{- if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}
{{- if .HasAvailableLocalFlags}}
{{flagHelp .LocalFlags}}{{end}}
{{- if .HasAvailableSubCommands}}

'purser ROLE --help' says more about a role.{{end}}
`
