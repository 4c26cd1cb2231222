package daytwo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/daytwo/read"
	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/clusterflags"
	"github.com/purser-csi/purser/internal/roles/explain"
)

type usageOptions struct {
	command
	rules.UsageOptions
	parallel int
	timeout  time.Duration
	metrics  []string
	agents   []string
}

func newUsage(streams explain.Streams) *cobra.Command {
	o := &usageOptions{command: command{Streams: streams}}
	c := &cobra.Command{
		Use:   "df [CLAIM ...]",
		Short: "Show how full the volumes of claims are",
		Long: `Prints size, used bytes and used inodes of the volumes of claims, the fullest
first. The numbers are those of the kubelets, which know the volumes that pods
use; the kubelets are asked through the API server (permission: get nodes/proxy).
A volume that no pod uses, and a raw device, are unknown, unless --driver-metrics
names a purser driver that knows what they take. Kubelets that do not answer are
named. Nodes without a kubelet are those of --node-metrics. It only reads.`,
		Example: `  purser df -A
  purser df -n shop --sort inodes
  purser df data -n shop -o json`,
		ValidArgsFunction: o.Names(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")),
		RunE:              run(o.run),
	}
	o.flags(c, ofClaims)
	o.allFlag(c)
	f := c.Flags()
	f.StringVar(&o.Sort, "sort", rules.UsageOrders[0], "`order`: "+strings.Join(rules.UsageOrders, ", "))
	f.Float64Var(&o.Warn, "warn", 80, "used bytes or inodes in `percent` from which a claim is yellow")
	f.Float64Var(&o.Critical, "critical", 90, "used bytes or inodes in `percent` from which a claim is red, and the "+
		"exit code 1")
	f.IntVar(&o.parallel, "parallel", 16, "kubelets that are asked at once")
	f.DurationVar(&o.timeout, "node-timeout", 10*time.Second, "how long one kubelet may take")
	f.StringArrayVar(&o.metrics, "driver-metrics", nil,
		"`url` of the metrics of a purser driver, such as http://127.0.0.1:8080/metrics, for what volumes take in the "+
			"backend that no pod uses; may be given several times")
	f.StringArrayVar(&o.agents, "node-metrics", nil,
		"`url` of the metrics of a purser node or the node agent of purser up, for the volumes on nodes without a "+
			"kubelet; may be given several times")
	clusterflags.CompleteValues(c, "sort", rules.UsageOrders...)
	exitCodes(c, "no claim is critically full", "a claim is critically full",
		"a kubelet did not answer, something could not be read, or the command line is wrong")
	return c
}

func (o *usageOptions) run(c *cobra.Command, claims []string) error {
	switch {
	case !slices.Contains(rules.UsageOrders, o.Sort):
		return cli.SyntaxError{Err: fmt.Errorf("--sort=%s: expected %s", o.Sort, strings.Join(rules.UsageOrders, ", "))}
	case o.Warn < 0 || o.Critical < o.Warn || o.Critical > 100:
		return cli.SyntaxError{Err: fmt.Errorf("--warn=%g --critical=%g: must be percents, and --critical not less",
			o.Warn,
			o.Critical)}
	case o.parallel < 1 || o.timeout <= 0:
		return cli.SyntaxError{Err: fmt.Errorf(
			"--parallel=%d --node-timeout=%s: must be more than 0", o.parallel, o.timeout,
		)}
	case len(claims) > 0 && o.allNamespaces:
		return cli.SyntaxError{Err: errors.New("--all-namespaces: claims that are named are in one namespace; give -n")}
	}
	t, err := o.connect(c)
	if err != nil {
		return err
	}
	in, err := read.Usage(c.Context(), read.UsageConfig{
		Reader: t, API: t.api, Namespace: t.namespace, Claims: claims, Agents: o.agents,
		Parallel: o.parallel, Timeout: o.timeout,
	}, time.Now())
	if err != nil {
		return err
	}
	if in.Driver, err = read.Allocations(c.Context(), o.metrics, o.timeout); err != nil {
		return err
	}
	return o.print(rules.RankUsage(in, o.UsageOptions))
}
