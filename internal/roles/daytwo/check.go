package daytwo

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/daytwo/check"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/clusterflags"
	"github.com/purser-csi/purser/internal/roles/explain"
	"github.com/purser-csi/purser/internal/size"
)

type checkOptions struct {
	command
	check.Config
	size, mode string
	dryRun     bool
}

func newCheck(streams explain.Streams) *cobra.Command {
	o := &checkOptions{command: command{Streams: streams}}
	c := &cobra.Command{
		Use:   "check CLASS",
		Short: "Try a StorageClass: make, mount, write, expand, snapshot, restore, clone, delete",
		Long: `Makes a claim of the class, mounts it in a pod that writes to it, expands it,
takes a snapshot, restores it, clones the claim, compares what is on the copies,
and deletes everything, also after a failure and Ctrl-C. It prints how each step
ended and how long it took. Steps that the class or the cluster does not allow
are skipped, with the reason: on nodes without a kubelet, as those of purser up,
volumes are mounted, and nothing is written.`,
		Example: `  purser check fast -n scratch
  purser check fast -n scratch --dry-run
  purser check fast -n scratch --skip clone -o json`,
		Args:              exactly(1, "the name of a StorageClass"),
		ValidArgsFunction: o.Names(storagev1.SchemeGroupVersion.WithKind("StorageClass")),
		RunE:              run(o.run),
	}
	o.flags(c, "`namespace` of what is made, in place of that of the context")
	f := c.Flags()
	words := slices.Sorted(maps.Keys(rules.StepWords))
	f.StringVar(&o.size, "size", "1Gi", "`size` of the claim; it is expanded to twice as much")
	f.StringVar(&o.mode, "access-mode", string(corev1.ReadWriteOnce), "`mode` of the claims")
	f.StringVar(&o.Image, "image", "busybox:1.37", "`image` of the pods, with sh, dd, sync, sha256sum, cut and sleep")
	f.BoolVar(&o.HostNetwork, "host-network", false,
		"pods use the network of their node, as they must without a network plugin; a namespace with the "+
			"pod security level baseline or restricted refuses that")
	f.StringVar(&o.SnapshotClass, "snapshot-class", "",
		"`name` of the VolumeSnapshotClass; without it the default or the first "+
			"of the driver")
	f.StringSliceVar(&o.Skip, "skip", nil, "`steps` to leave out: "+strings.Join(words, ", "))
	f.DurationVar(&o.StepTimeout, "step-timeout", 3*time.Minute, "how long one step may take")
	f.DurationVar(&o.Timeout, "timeout", 0,
		"how long the check may take in all, a quarter of it for the deletion; 0 for no limit")
	f.BoolVar(&o.dryRun, "dry-run", false, "only print the steps, and whether the API server would take the claim")
	clusterflags.CompleteValues(c, "skip", words...)
	clusterflags.CompleteValues(c, "access-mode", string(corev1.ReadWriteOnce), string(corev1.ReadWriteMany),
		string(corev1.ReadWriteOncePod))
	exitCodes(c, "all steps passed or were skipped, and nothing is left", "a step failed, or something is left",
		"there is no such class, or the command line is wrong")
	return c
}

func (o *checkOptions) run(c *cobra.Command, args []string) error {
	quantity, err := size.Parse(o.size)
	if _, problem := size.Bytes(quantity); err != nil || problem != nil || size.Clamp(quantity) == 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--size=%s: expected a size such as 1Gi", o.size)}
	}
	if o.StepTimeout <= 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--step-timeout=%s: must be more than 0", o.StepTimeout)}
	}
	if o.Timeout < 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--timeout=%s: must not be less than 0", o.Timeout)}
	}
	for _, word := range o.Skip {
		if rules.StepWords[word] == "" {
			return cli.SyntaxError{Err: fmt.Errorf("--skip=%s: expected %s", word,
				strings.Join(slices.Sorted(maps.Keys(rules.StepWords)), ", "))}
		}
	}
	t, err := o.connect(c)
	if err != nil {
		return err
	}
	cfg := o.Config
	cfg.Client, cfg.Namespace, cfg.Size, cfg.Poll = t, t.namespace, quantity, 200*time.Millisecond
	cfg.Mode = corev1.PersistentVolumeAccessMode(o.mode)
	cfg.Name = "purser-check-" + strings.ToLower(rand.Text()[:nameLetters])
	cfg.Class = &storagev1.StorageClass{}
	if err := t.Get(c.Context(), client.ObjectKey{Name: args[0]}, cfg.Class); err != nil {
		return fmt.Errorf("storageclass/%s: %w", args[0], err)
	}
	plan, err := check.Plan(c.Context(), cfg)
	if err != nil {
		return err
	}
	if o.dryRun {
		return o.print(check.DryRun(c.Context(), cfg, plan))
	}
	return o.check(c.Context(), cfg, plan)
}

// check prints each step when it ends: as a part of the page, or beside the JSON.
func (o *checkOptions) check(ctx context.Context, cfg check.Config, plan rules.CheckPlan) error {
	out := o.Out
	if o.output != "text" {
		out = o.Err
	}
	show := func(print func(*rules.Page)) {
		page := &rules.Page{Colours: isColoured(out)}
		print(page)
		fmt.Fprint(out, page)
	}
	show(cfg.Report().PrintHead)
	cfg.Progress = func(s rules.CheckStep) { show(s.Print) }
	report := check.Run(ctx, cfg, plan)
	if o.output != "text" {
		return o.print(report)
	}
	show(report.PrintEnd)
	if code := report.ExitCode(); code != 0 {
		return explain.ExitError{Code: code}
	}
	return nil
}

// nameLetters are enough that two checks at once have other names.
const nameLetters = 8
