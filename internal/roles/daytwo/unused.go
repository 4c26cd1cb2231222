package daytwo

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/purser-csi/purser/internal/daytwo/read"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/explain"
)

type unusedOptions struct {
	command
	days int
}

func newUnused(streams explain.Streams) *cobra.Command {
	o := &unusedOptions{command: command{Streams: streams}}
	c := &cobra.Command{
		Use:   "unused",
		Short: "List claims that no pod has used for days",
		Long: `Prints the claims whose condition Unused, which Kubernetes keeps since 1.37, says
that no pod has used them for days, the oldest first, with the workloads whose
pods would use them, such as a StatefulSet with fewer replicas. A claim without
the condition is compared with the pods: that says whether it is unused now, and
not since when. It only reads.`,
		Example: `  purser unused -A --days 90
  purser unused -n shop -o json`,
		Args: cli.NoArguments,
		RunE: run(o.run),
	}
	o.flags(c, ofClaims)
	o.allFlag(c)
	c.Flags().IntVar(&o.days, "days", 30, "how many `days` a claim must have been unused")
	exitCodes(c, "no claim has been unused so long", "there are such claims",
		"claims lack the condition, something could not be read, or the command line is wrong")
	return c
}

func (o *unusedOptions) run(c *cobra.Command, _ []string) error {
	if o.days < 0 {
		return cli.SyntaxError{Err: fmt.Errorf("--days=%d: must be 0 or more", o.days)}
	}
	t, err := o.connect(c)
	if err != nil {
		return err
	}
	in, err := read.Unused(c.Context(), t, t.namespace, time.Now())
	if err != nil {
		return err
	}
	return o.print(rules.FindUnused(in, o.days))
}
