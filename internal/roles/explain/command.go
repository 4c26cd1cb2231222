package explain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/yaml"

	core "github.com/purser-csi/purser/internal/core/explain"
)

// Streams are where the commands read and write.
type Streams struct {
	In  io.Reader
	Out io.Writer
}

// ExitError ends the program with a code. Err is printed; without one the answer has been printed.
type ExitError struct {
	Code int
	Err  error
}

// Error implements error.
func (e ExitError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return fmt.Sprintf("exit code %d", e.Code)
}

// ExitCode returns the code for main.
func (e ExitError) ExitCode() int { return e.Code }

// Unwrap returns the cause.
func (e ExitError) Unwrap() error { return e.Err }

// IsTold reports whether the answer has been printed.
func (e ExitError) IsTold() bool { return e.Err == nil }

// cannotTell gives an error the exit code for an unknown state, since 1 means that an object is
// stuck.
func cannotTell(err error) error {
	if _, isExit := errors.AsType[ExitError](err); err == nil || isExit {
		return err
	}
	return ExitError{Code: exitUnknown, Err: err}
}

// The exit codes of explain.
const (
	exitStuck   = 1
	exitUnknown = 2
)

// New returns the commands explain, tree and dump.
func New(streams Streams) []*cobra.Command {
	return []*cobra.Command{newExplain(streams), newTree(streams), newDump(streams)}
}

// Answer is the output of explain with -o json or -o yaml. For one object, Reports has its entry.
// Without an object, Groups has the causes, and Reports every stuck object.
type Answer struct {
	Time    time.Time     `json:"time"`
	Reports []core.Report `json:"reports"`
	Groups  []core.Group  `json:"groups,omitempty"`
	Unread  []string      `json:"unread,omitempty"`
}

type explainOptions struct {
	source
	output string
	watch  bool
	out    io.Writer
}

func newExplain(streams Streams) *cobra.Command {
	o := &explainOptions{source: source{in: streams.In}, out: streams.Out}
	c := &cobra.Command{
		Use:   "explain [KIND/NAME]",
		Short: "Say why a claim, volume or pod is stuck",
		Long: `Prints what an object waits for, which fields show that, what to do and who has
to do it. Without an object: everything that is stuck, grouped by cause.

KIND is pvc, pv, pod, volumeattachment, volumesnapshot, node, storageclass or
namespace. It only reads. Exit codes: 0 not stuck, 1 stuck, 2 unknown.`,
		Example: `  # why is this claim Pending?
  purser explain pvc/data -n shop

  # everything that is stuck, from files that were sent
  purser explain --from must-gather/`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error { return cannotTell(o.run(c.Context(), args)) },
	}
	o.flags(c.Flags())
	o.dumpFlags(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "text", "`format` of the answer: text, json or yaml")
	c.Flags().
		BoolVarP(&o.watch, "watch", "w", false, "explain again every five seconds, and print what has changed, until the object is not stuck")
	return c
}

const watchEvery = 5 * time.Second

func (o *explainOptions) run(ctx context.Context, args []string) error {
	if o.output != "text" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output=%s: expected text, json or yaml", o.output)
	}
	if o.watch && len(o.from) > 0 {
		return errors.New("--watch: a dump does not change; leave out --from or --watch")
	}
	code, text, err := o.once(ctx, args, "")
	for err == nil && o.watch && code != 0 {
		select {
		case <-ctx.Done():
			return ExitError{Code: code}
		case <-time.After(watchEvery):
			code, text, err = o.once(ctx, args, text)
		}
	}
	if err == nil && code != 0 {
		return ExitError{Code: code}
	}
	return err
}

// once prints the answer if it differs from the previous one.
func (o *explainOptions) once(ctx context.Context, args []string, before string) (code int, text string, err error) {
	answer, err := o.answer(ctx, args)
	if err != nil {
		return 0, "", err
	}
	if text, err = o.render(answer); err != nil {
		return 0, "", err
	}
	if text != before {
		_, err = io.WriteString(o.out, text)
	}
	return exitCode(answer), text, err
}

func (o *explainOptions) answer(ctx context.Context, args []string) (Answer, error) {
	cluster, namespace, err := o.read(ctx)
	if err != nil {
		return Answer{}, err
	}
	answer := Answer{Time: cluster.Now.UTC()}
	if len(args) == 0 {
		answer.Reports = cluster.Stuck(o.namespace)
		answer.Groups = core.GroupByCause(answer.Reports)
		answer.Unread = cluster.UnreadTexts()
		return answer, nil
	}
	ref, err := parseRef(args, namespace)
	if err != nil {
		return Answer{}, err
	}
	answer.Reports = []core.Report{cluster.Explain(ref)}
	return answer, nil
}

func (o *explainOptions) render(answer Answer) (string, error) {
	switch o.output {
	case "json":
		text, err := json.MarshalIndent(answer, "", "  ")
		return string(text) + "\n", err
	case "yaml":
		text, err := yaml.Marshal(answer)
		return string(text), err
	}
	p := printer{width: 80, style: styleFor(o.out)}
	if answer.Groups == nil && len(answer.Reports) == 1 {
		p.report(answer.Reports[0])
	} else {
		p.groups(answer)
	}
	return p.String(), nil
}

// exitCode returns 1 if an object is stuck, and 2 if the state of an object is unknown.
func exitCode(answer Answer) int {
	code := 0
	for _, report := range answer.Reports {
		switch report.State {
		case core.Stuck:
			return exitStuck
		case core.Unknown:
			code = exitUnknown
		case core.Well:
		}
	}
	return code
}

// styleFor returns a style with colours for a terminal, unless NO_COLOR is set.
func styleFor(out io.Writer) style {
	file, ok := out.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" {
		return coloured
	}
	return plain
}
