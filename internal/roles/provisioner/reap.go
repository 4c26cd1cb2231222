package provisioner

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/kube"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// Reap has the settings of a central instance that reclaims the volumes of removed nodes (N-12).
type Reap struct {
	Mode  string // empty for an instance that does not reclaim them
	After time.Duration
}

// The values of --purser-reap-removed-nodes.
const (
	reapByDriver = "driver"
	reapForget   = "forget"
)

func (r *Reap) flags(f *pflag.FlagSet) {
	f.StringVar(&r.Mode, "purser-reap-removed-nodes", "",
		"run as the one central instance beside those of node-deployment, which does nothing but reclaim released "+
			"volumes with the policy Delete whose nodes do not exist any more: by `mode` driver it calls "+
			"DeleteVolume, for backends that all nodes share; by forget it does not, since the data went with the node")
	f.DurationVar(
		&r.After, "purser-reap-removed-nodes-after", time.Hour, "how long the nodes of a volume must have been gone",
	)
	cli.Ranged(
		f, cli.Range{Least: "1ns", Most: "8760h", With: []string{"purser-reap-removed-nodes"}},
		"purser-reap-removed-nodes-after",
	)
}

func (p *Provisioner) validateReap() []error {
	r := p.Reap
	if r.Mode == "" {
		return nil
	}
	return []error{
		cli.Need(
			r.Mode == reapByDriver ||
				r.Mode == reapForget, "--purser-reap-removed-nodes=%q: not known; use %s or %s", r.Mode, reapByDriver,
			reapForget,
		),
		cli.Need(
			r.After > 0,
			"--purser-reap-removed-nodes-after=%s: must be more than 0, since a node may be registered again", r.After,
		),
		cli.Need(
			!p.NodeDeployment.Enabled,
			"--purser-reap-removed-nodes: cannot be given with --node-deployment; run one more instance for it",
		),
		cli.Need(
			!p.Capacity.Enabled,
			"--purser-reap-removed-nodes: cannot be given with --enable-capacity; the instances of the nodes publish "+
				"capacities",
		),
		cli.Need(
			p.InProcess.Queue == nil &&
				len(p.Hosted) == 0, "--purser-reap-removed-nodes: is for `purser csi-provisioner` only",
		),
	}
}

// addReaper registers the controller that reclaims the volumes of removed nodes.
func addReaper(ctx context.Context, p *parts) error {
	cached, live := p.Cached, p.Manager.GetAPIReader()
	reaper := reclaiming.NewReaper(reclaiming.ReaperConfig{
		Cached: cached, Live: live, Writer: p.Writer, Driver: p.Driver.Name,
		After: p.role.Reap.After, Clock: clock.RealClock{},
		Namespace: p.role.Election.LeaseNamespace(), Prefix: p.journalName() + "-",
	})
	if p.role.Reap.Mode == reapByDriver {
		reaper.CSI = p.Conn.Controller()
	}
	cfg := p.reclaimConfig()
	cfg.Cached = cached.Over(kube.SomeVolumes(p.Manager.GetClient(), reaper.Has))
	cfg.Live, cfg.AllVolumes = kube.SomeVolumes(live, reaper.Has), live
	cfg.CSI, cfg.Sources = reaper.Client(), reaper.Sources()
	return errors.Join(
		kube.Prewarm(ctx, p.Manager.GetCache(), &corev1.Node{}),
		reclaiming.New(cfg).AddTo(ctx, p.Manager), p.Manager.Add(reaper),
	)
}
