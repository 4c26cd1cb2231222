package daytwo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/daytwo/grow"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/size"
)

type growOptions struct {
	command
	template    string
	yes, dryRun bool
	evenIfOwned bool
	timeout     time.Duration
	filesystems time.Duration
}

func newGrow(streams explain.Streams) *cobra.Command {
	o := &growOptions{command: command{Streams: streams}}
	c := &cobra.Command{
		Use:   "grow sts/NAME SIZE",
		Short: "Give the claims of a StatefulSet, and its template, a larger size",
		Long: `Without --yes it prints what it would do, after the checks: that the classes
allow expansion, that quotas have room, that the drivers are there, and that the
API server takes the changes (a dry run of it). With --yes it asks for the size
for each claim and waits until all volumes have it. Then it replaces the
StatefulSet, whose template cannot be changed: it deletes the object without its
pods (orphan) and creates it again with everything that it had and the new size.
The pods keep running.

The new StatefulSet is kept in the Secret purser-grow-NAME from before the
deletion until it is created. If the command is killed in between, repeat it: it
goes on from there. Ctrl-C in between waits for the creation.`,
		Example: `  purser grow sts/db 20Gi -n shop
  purser grow sts/db 20Gi -n shop --yes`,
		Args: exactly(2, "sts/NAME and a SIZE such as 20Gi"),
		ValidArgsFunction: func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			return o.completeSets(c, args, typed)
		},
		RunE: run(o.run),
	}
	o.flags(c, "`namespace` of the StatefulSet, in place of that of the context")
	f := c.Flags()
	f.StringVar(&o.template, "template", "", "`name` of the volumeClaimTemplate, if there are several")
	f.BoolVar(&o.yes, "yes", false, "do it; without this it is a dry run")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print what would be done, as without --yes")
	f.BoolVar(
		&o.evenIfOwned, "even-if-owned", false,
		"also if another object, such as an operator's, controls the StatefulSet",
	)
	f.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long the expansion of all volumes may take")
	f.DurationVar(
		&o.filesystems, "filesystem-timeout", 2*time.Minute,
		"how long the nodes may take for the filesystems of mounted volumes, at the end",
	)
	exitCodes(c, "done, or the plan is allowed", "refused, it failed on the way, or a filesystem is not expanded yet",
		"the cluster cannot be read, or the command line is wrong")
	return c
}

// completeSets completes sts/NAME.
func (o *growOptions) completeSets(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	const prefix = "sts/"
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if len(typed) < len(prefix) {
		return []string{prefix}, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	}
	names, err := o.ListNames(c.Context(), appsv1.SchemeGroupVersion.WithKind("StatefulSet"), typed[len(prefix):])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// growAnswer is what grow prints with -o json.
type growAnswer struct {
	rules.GrowPlan
	DryRun  bool   `json:"dryRun"`
	Resumed bool   `json:"resumed,omitempty"` // a replacement that an earlier command began
	Done    bool   `json:"done"`
	Failed  string `json:"failed,omitempty"`
	// Left are the claims whose filesystem is not expanded while it is mounted.
	Left []string `json:"filesystemsLeft,omitempty"`
}

// ExitCode implements answer.
func (a growAnswer) ExitCode() int {
	if len(a.Refused) > 0 || a.Failed != "" || len(a.Left) > 0 {
		return rules.ExitFound
	}
	return 0
}

// Print implements answer.
func (a growAnswer) Print(p *rules.Page) {
	switch {
	case a.Failed != "":
		p.Line(rules.Critical, "Failed: %s", a.Failed)
	case a.Done:
		p.Line(rules.Good, "Done: StatefulSet %s/%s and its claims have %s.", a.Namespace, a.Set, a.Size)
		for _, text := range a.Left {
			p.Line(rules.Warning, "Not expanded yet: %s", text)
		}
	case a.Resumed:
		p.Line(rules.Warning,
			"An earlier command has deleted StatefulSet %s/%s and has not created it again. With --yes it is "+
				"created from secret/%s.", a.Namespace, a.Set, rules.SavedName(a.Set))
	default:
		a.GrowPlan.Print(p)
		if len(a.Refused) == 0 && !a.IsDone() {
			p.Line(rules.Plain, "This was a dry run. With --yes it is done.")
		}
	}
}

func (o *growOptions) run(c *cobra.Command, args []string) error {
	set, err := rules.ParseTarget(args[0])
	if err != nil {
		return cli.SyntaxError{Err: err}
	}
	to, err := size.Parse(args[1])
	if _, problem := size.Bytes(to); err != nil || problem != nil || size.Clamp(to) == 0 {
		return cli.SyntaxError{Err: fmt.Errorf("%q: expected a size such as 20Gi", args[1])}
	}
	if o.yes && o.dryRun || o.timeout <= 0 || o.filesystems <= 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--yes=%t --dry-run=%t --timeout=%s: leave out --yes or --dry-run, "+
			"and give a --timeout and --filesystem-timeout above 0", o.yes, o.dryRun, o.timeout)}
	}
	t, err := o.connect(c)
	if err != nil {
		return err
	}
	return o.grow(c.Context(), o.config(t, set, to))
}

func (o *growOptions) config(t target, set string, to resource.Quantity) grow.Config {
	return grow.Config{
		Client: t, Namespace: t.namespace, Set: set, Template: o.template, Size: to, EvenIfOwned: o.evenIfOwned,
		Timeout: o.timeout, FilesystemTimeout: o.filesystems, Poll: time.Second,
		Progress: func(format string, args ...any) {
			fmt.Fprintln(o.Err, printable.Line(fmt.Sprintf(format, args...)))
		},
	}
}

func (o *growOptions) grow(ctx context.Context, cfg grow.Config) error {
	saved, err := grow.Unfinished(ctx, cfg)
	if err != nil {
		return err
	}
	if saved != nil {
		a := growAnswer{GrowPlan: rules.GrowPlan{
			Schema: rules.SchemaGrow, Namespace: cfg.Namespace, Set: cfg.Set, Size: cfg.Size.String(),
			Claims: []rules.GrowClaim{},
		}, DryRun: !o.yes, Resumed: true}
		if !o.yes {
			return o.print(a)
		}
		cfg.Progress("going on with the replacement of sts/%s that an earlier command began", cfg.Set)
		if err := grow.Resume(ctx, cfg, saved); err != nil {
			a.Failed = err.Error()
			return o.print(a)
		}
	}
	in, err := grow.Gather(ctx, cfg)
	if err != nil {
		return err
	}
	plan := rules.PlanGrowth(in)
	if len(plan.Refused) == 0 && !plan.IsDone() {
		refused, err := grow.Try(ctx, cfg, plan, in.Set)
		if err != nil {
			return err
		}
		plan.Refused = slices.Concat(plan.Refused, refused)
	}
	a := growAnswer{GrowPlan: plan, DryRun: !o.yes, Resumed: saved != nil}
	if !o.yes || len(plan.Refused) > 0 {
		a.Resumed = false
		return o.print(a)
	}
	for _, note := range plan.Notes {
		cfg.Progress("note: %s", note)
	}
	if err := do(ctx, cfg, plan); err != nil {
		a.Failed = err.Error()
	}
	if a.Done = a.Failed == ""; a.Done {
		a.Left = grow.Filesystems(ctx, cfg, plan)
	}
	return o.print(a)
}

// do expands the claims, and replaces the StatefulSet after that.
func do(ctx context.Context, cfg grow.Config, plan rules.GrowPlan) error {
	err := grow.Expand(ctx, cfg, plan)
	if err == nil && plan.Replace {
		err = grow.Replace(ctx, cfg, plan)
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; repeat the command to go on")
	}
	return err
}
