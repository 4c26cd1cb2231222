package daytwo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/clusterflags"
	"github.com/purser-csi/purser/internal/roles/explain"
)

// New returns the commands.
func New(streams explain.Streams) []*cobra.Command {
	return []*cobra.Command{
		newUsage(streams), newOrphans(streams), newGrow(streams), newCheck(streams), newUnused(streams),
	}
}

// command is what all commands have.
type command struct {
	clusterflags.Flags
	explain.Streams
	output        string
	allNamespaces bool
}

const ofClaims = "`namespace` of the claims, in place of that of the context"

// flags adds the flags that all commands have, and their completion.
func (o *command) flags(c *cobra.Command, namespace string) {
	o.Add(c.Flags(), namespace)
	c.Flags().StringVarP(&o.output, "output", "o", "text", "`format` of the answer: text or json")
	o.CompleteFlags(c)
	clusterflags.CompleteValues(c, "output", "text", "json")
}

func (o *command) allFlag(c *cobra.Command) {
	c.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "the claims of all namespaces")
}

// target is a cluster that a command works on.
type target struct {
	client.WithWatch
	api       *rest.Config
	namespace string // of the flags or the context; empty for all
}

// connect checks the flags that all commands have, and connects.
func (o *command) connect(c *cobra.Command) (target, error) {
	if o.output != "text" && o.output != "json" {
		return target{}, cli.SyntaxError{Err: fmt.Errorf("--output=%s: expected text or json", o.output)}
	}
	if o.allNamespaces && o.Namespace != "" {
		return target{}, cli.SyntaxError{Err: errors.New("--all-namespaces: leave it out, or --namespace")}
	}
	config, namespace, err := o.Config("purser-" + c.Name())
	if err != nil {
		return target{}, err
	}
	t := target{api: config, namespace: cmp.Or(o.Namespace, namespace)}
	if o.allNamespaces {
		t.namespace = ""
	}
	if t.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: inventory.Scheme()}); err != nil {
		return t, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return t, nil
}

// answer is what a command prints.
type answer interface {
	Print(page *rules.Page)
	ExitCode() int
}

// print prints an answer, and returns its exit code as an error.
func (o *command) print(a answer) error {
	text, err := o.render(a)
	if err == nil {
		_, err = io.WriteString(o.Out, text)
	}
	if code := a.ExitCode(); err == nil && code != 0 {
		return explain.ExitError{Code: code}
	}
	return err
}

func (o *command) render(a answer) (string, error) {
	if o.output == "json" {
		text, err := json.MarshalIndent(a, "", "  ")
		return printable.JSON(string(text)) + "\n", err
	}
	page := &rules.Page{Colours: isColoured(o.Out)}
	a.Print(page)
	return page.String(), nil
}

// isColoured reports whether the output is a terminal for which colours are not turned off.
func isColoured(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""
}

// run gives the errors of a command the exit code for what is unknown, since 1 is an answer.
func run(f func(c *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		err := f(c, args)
		if _, isExit := errors.AsType[explain.ExitError](err); err == nil || isExit {
			return err
		}
		return explain.ExitError{Code: rules.ExitUnknown, Err: err}
	}
}

// exitCodes documents the codes of a command.
func exitCodes(c *cobra.Command, well, found, unknown string) {
	cli.SetExitCodes(c, cli.ExitCode{Number: 0, Means: well}, cli.ExitCode{Number: rules.ExitFound, Means: found},
		cli.ExitCode{Number: rules.ExitUnknown, Means: unknown})
}

// exactly refuses another number of arguments.
func exactly(count int, want string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == count {
			return nil
		}
		return cli.SyntaxError{Err: fmt.Errorf("give %s; see '%s --help'", want, c.CommandPath())}
	}
}
