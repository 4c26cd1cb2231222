package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/cli"
)

// Streams are where the commands read and write.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer // takes notes about the input; nil for none
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

// ErrorText returns an error as main prints it: it may quote objects and drivers, so it loses the
// characters that a terminal acts on.
func ErrorText(err error) string { return printable.Text(err.Error()) }

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

// setExitCodes documents the codes of a command that does what it is for, or cannot.
func setExitCodes(c *cobra.Command, done string) {
	cli.SetExitCodes(c, cli.ExitCode{Number: 0, Means: done}, cli.ExitCode{
		Number: exitUnknown, Means: "the source cannot be read, has no such object, or the command line is wrong",
	})
}

// The exit codes of explain.
const (
	exitStuck   = 1
	exitUnknown = 2
)

// New returns the commands explain, tree, life, dump and record.
func New(streams Streams) []*cobra.Command {
	return []*cobra.Command{
		newExplain(streams), newTree(streams), newLife(streams), newDump(streams), newRecord(streams),
	}
}

// schemaExplain and schemaTree name the forms of -o json. A field is added under the same name; a
// form without a field of before, or with another meaning, needs the next version.
const (
	schemaExplain = "purser.explain/v1"
	schemaTree    = "purser.tree/v1"
)

// Answer is the output of explain with -o json or -o yaml. For named objects, Reports has one entry
// each. Without an object, Groups has the causes, and Reports every stuck object.
type Answer struct {
	Schema  string         `json:"schema"`
	Time    time.Time      `json:"time"`
	Reports []rules.Report `json:"reports"`
	Groups  []rules.Group  `json:"groups,omitempty"`
	// Refused are the wishes that the API server refused about objects that are well, without an
	// object.
	Refused []rules.Finding `json:"refused,omitempty"`
	Unread  []string        `json:"unread,omitempty"`
	// Calls are the last calls to drivers and decisions about the named objects that a dump or a record has
	// of the roles.
	Calls []life.Call `json:"calls,omitempty"`
	// Unknown says that a kind was not read of which an object may be stuck.
	Unknown bool `json:"unknown,omitempty"`

	named bool // the reports are about the objects that were named
}

type explainOptions struct {
	source
	output string
	watch  bool
	all    bool
	out    io.Writer

	allNamespaces bool
	selector      string
}

func newExplain(streams Streams) *cobra.Command {
	o := &explainOptions{source: source{in: streams.In, notes: streams.Err}, out: streams.Out}
	c := &cobra.Command{
		Use:   "explain [KIND/NAME ...]",
		Short: "Say why a claim, volume or pod is stuck",
		Long: `Prints what an object waits for, which fields show that, what to do and who has
to do it. Without an object: a table of everything that is stuck, a line for
each cause, and what is to be done about the first few; then the changes that
the API server refused about objects that are well.

KIND is pvc, pv, pod, volumeattachment, node, csinode, namespace, a snapshot or
its content (volumesnapshot, volumesnapshotcontent, volumegroupsnapshot,
volumegroupsnapshotcontent), a workload (deployment, statefulset, daemonset,
replicaset, job: each pod and claim that it is short of), a class or a driver
(storageclass, volumesnapshotclass, volumegroupsnapshotclass,
volumeattributesclass, csidriver: what uses it, and what is stuck because of
it), lease (what holds it) or secret (what names it; values are never read). Of
an object that is not stuck it prints the last change that the API server
refused. It only reads.`,
		Example: `  # why is this claim Pending?
  purser explain pvc/data -n shop

  # why does this StatefulSet not get its pods or larger claims?
  purser explain statefulset/db -n shop

  # everything that is stuck, from files that were sent
  purser explain --from must-gather/`,
		ValidArgsFunction: o.complete,
		RunE:              func(c *cobra.Command, args []string) error { return cannotTell(o.run(c.Context(), args)) },
	}
	o.flags(c.Flags())
	o.dumpFlags(c.Flags())
	c.Flags().StringVarP(&o.output, "output", "o", "text", "`format` of the answer: text, json or yaml")
	c.Flags().
		BoolVarP(
			&o.watch, "watch", "w", false,
			"watch the objects, and print what changes in the answer, until nothing is stuck",
		)
	c.Flags().BoolVarP(
		&o.allNamespaces, "all-namespaces", "A", false, "without an object: all namespaces, whatever -n says",
	)
	c.Flags().StringVarP(
		&o.selector, "selector", "l", "", "without an object: only objects with these `labels`, such as app=web",
	)
	c.Flags().BoolVar(
		&o.all, "all", false, "without an object: explain every cause, not only the first few of the table",
	)
	o.completeFlags(c, "text", "json", "yaml")
	cli.SetExitCodes(c, cli.ExitCode{Number: 0, Means: "not stuck"}, cli.ExitCode{Number: exitStuck, Means: "stuck"},
		cli.ExitCode{
			Number: exitUnknown, Means: "unknown, or the command line is wrong; of several objects, the highest",
		})
	return c
}

func (o *explainOptions) run(ctx context.Context, args []string) error {
	if o.output != "text" && o.output != "json" && o.output != "yaml" {
		return fmt.Errorf("--output=%s: expected text, json or yaml", o.output)
	}
	if o.watch {
		return o.follow(ctx, args)
	}
	answer, err := o.answer(ctx, args)
	if err != nil {
		return err
	}
	return o.print(answer)
}

// print prints an answer and returns its exit code.
func (o *explainOptions) print(answer Answer) error {
	text, err := o.render(answer)
	if err == nil {
		_, err = io.WriteString(o.out, text)
	}
	if code := exitCode(answer); err == nil && code != 0 {
		return ExitError{Code: code}
	}
	return err
}

func (o *explainOptions) answer(ctx context.Context, args []string) (Answer, error) {
	selector, err := o.selected(args)
	if err != nil {
		return Answer{}, err
	}
	asked, err := kindsOf(args)
	if err != nil {
		return Answer{}, err
	}
	cluster, namespace, err := o.read(ctx, asked...)
	if err != nil {
		return Answer{}, err
	}
	return o.answerFrom(cluster, namespace, selector, args)
}

// selected checks the flags that select objects against the objects that are named.
func (o *explainOptions) selected(args []string) (labels.Selector, error) {
	selector, err := labels.Parse(o.selector)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--selector=%s: %w", o.selector, err)
	case len(args) > 0 && o.selector != "":
		return nil, errors.New("--selector: it selects without an object; leave out KIND/NAME or the selector")
	case len(args) > 0 && o.allNamespaces:
		return nil, errors.New("--all-namespaces: a name is in one namespace; leave out KIND/NAME, or give -n")
	case o.allNamespaces:
		o.Namespace = ""
	}
	return selector, nil
}

// answerFrom explains the named objects, or all.
func (o *explainOptions) answerFrom(
	cluster *rules.Cluster, namespace string, selector labels.Selector, args []string,
) (Answer, error) {
	answer := Answer{Schema: schemaExplain, Time: cluster.Now.UTC(), named: len(args) > 0}
	if !answer.named {
		answer.Reports = selected(cluster, cluster.Stuck(o.Namespace), selector)
		answer.Groups = rules.GroupByCause(answer.Reports)
		answer.Refused = selectedWishes(cluster, cluster.RefusedWishes(o.Namespace), selector)
		answer.Unread, answer.Unknown = cluster.UnreadTexts(), cluster.CannotTell()
		return answer, nil
	}
	refs, err := parseRefs(args, namespace)
	if err != nil {
		return Answer{}, err
	}
	for _, ref := range refs {
		answer.Reports = append(answer.Reports, explainNamed(cluster, ref))
	}
	answer.Calls = lastCalls(cluster, refs, o.calls(cluster.Now.Add(time.Second)))
	return answer, nil
}

// selected returns the reports about objects with the labels.
func selected(cluster *rules.Cluster, reports []rules.Report, selector labels.Selector) []rules.Report {
	isSelected := selection(cluster, selector)
	return slices.DeleteFunc(reports, func(r rules.Report) bool { return !isSelected(r.Object) })
}

// selectedWishes returns the wishes about objects with the labels.
func selectedWishes(cluster *rules.Cluster, wishes []rules.Finding, selector labels.Selector) []rules.Finding {
	isSelected := selection(cluster, selector)
	return slices.DeleteFunc(wishes, func(f rules.Finding) bool { return !isSelected(f.Object) })
}

// selection reports whether an object has the labels.
func selection(cluster *rules.Cluster, selector labels.Selector) func(rules.Ref) bool {
	if selector.Empty() {
		return func(rules.Ref) bool { return true }
	}
	matches := map[rules.Ref]bool{}
	for _, o := range cluster.Objects() {
		matches[o.Ref] = selector.Matches(labels.Set(o.Labels))
	}
	return func(ref rules.Ref) bool { return matches[ref] }
}

func (o *explainOptions) render(answer Answer) (string, error) {
	if o.output != "text" {
		return encode(answer, o.output)
	}
	p := printer{width: widthOf(o.out), style: styleFor(o.out)}
	if !answer.named {
		p.groups(answer, o.all)
	}
	for i, report := range answer.Reports {
		if answer.named {
			if i > 0 {
				p.line("")
			}
			p.report(report)
		}
	}
	p.calls(answer.Calls)
	return p.String(), nil
}

// exitCode returns 1 if an object is stuck, and 2 if the state of an object is unknown. Without an
// object, waits that are normal are not stuck.
func exitCode(answer Answer) int {
	code := 0
	if answer.Unknown {
		code = exitUnknown
	}
	if answer.Groups != nil {
		if slices.ContainsFunc(answer.Groups, func(g rules.Group) bool { return !g.Normal }) {
			code = exitStuck
		}
		return code
	}
	for _, report := range answer.Reports {
		switch report.State {
		case rules.Stuck:
			code = max(code, exitStuck)
		case rules.Unknown:
			code = exitUnknown
		case rules.Well:
		}
	}
	return code
}

// widthOf is the width of a terminal, within what can be read well, and 80 for what is no terminal.
func widthOf(out io.Writer) int {
	const usual, most = 80, 160
	if file, ok := out.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return max(usual/2, min(width, most))
		}
	}
	return usual
}

// styleFor returns a style with colours for a terminal, unless NO_COLOR is set.
func styleFor(out io.Writer) style {
	file, ok := out.(*os.File)
	if ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == "" {
		return coloured
	}
	return plain
}
