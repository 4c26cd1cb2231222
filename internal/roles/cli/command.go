package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Program is the program's name and arguments.
type Program struct {
	Name    string // argv[0]; the name of a role picks that role, so that one image serves several
	Args    []string
	Version string
	Out     io.Writer
	Err     io.Writer
}

// UsageError is a value in the command line that is refused, as opposed to a failure at work.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e UsageError) Unwrap() error { return e.Err }

// SyntaxError is a command line that cannot be parsed.
type SyntaxError struct{ Err error }

// Error implements error.
func (e SyntaxError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e SyntaxError) Unwrap() error { return e.Err }

// The groups of commands on the help page.
const (
	GroupTry  = "try"
	GroupAsk  = "ask"
	GroupKeep = "keep"
	GroupRun  = "run"
)

// Role is what the commands have in common.
type Role interface {
	// Validate lists every mistake in the configuration.
	Validate() error
	// Run works until ctx ends, which is no error.
	Run(ctx context.Context) error
}

// FlaggedRole is a role whose settings are flags.
type FlaggedRole interface {
	Role
	// AddFlags binds every setting to its flag.
	AddFlags(f *pflag.FlagSet)
}

// NewRoleCommand completes the command that runs a role. c has the name, the help and the rest that
// differs between the roles; without Args, the command takes none.
func NewRoleCommand(program Program, r FlaggedRole, c *cobra.Command) *cobra.Command {
	c.GroupID, c.Version, c.RunE = GroupRun, program.Version, Run(r)
	if c.Args == nil {
		c.Args = NoArguments
	}
	r.AddFlags(c.Flags())
	return c
}

// NewDropInCommand is [NewRoleCommand] for a role that takes the place of an upstream program. As
// there, --version prints the name of the program and its version (CL-3, AT-P5).
func NewDropInCommand(program Program, r FlaggedRole, c *cobra.Command) *cobra.Command {
	NewRoleCommand(program, r, c)
	printVersionOf(program, c)
	return c
}

// Run validates and runs a role as the body of a command.
func Run(r Role) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		unread := Mistakes(c.Flags())
		if err := errors.Join(unread, OutOfRange(c.Flags()), r.Validate()); err != nil {
			err = fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())
			if unread != nil {
				return SyntaxError{Err: err}
			}
			return UsageError{Err: err}
		}
		err := r.Run(c.Context())
		if errors.Is(err, context.Canceled) && c.Context().Err() != nil {
			return nil
		}
		return err
	}
}

// NoArguments refuses arguments that are not flags. Most often they are flags without their dashes.
func NoArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return SyntaxError{
		Err: fmt.Errorf(
			"unexpected argument %q: %s takes flags only; see '%s --help'", args[0], c.Name(), c.CommandPath(),
		),
	}
}
