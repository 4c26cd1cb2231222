package plane

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Plane is the role plane: the controllers, a provisioner, a resizer and optionally an attacher and the roles
// of snapshots in one process. Together they need fewer writes.
type Plane struct {
	*provisioner.Provisioner
	Controllers     *controllers.Controllers
	WithAttacher    bool // --with-attacher
	Attacher        *attacher.Attacher
	Resizer         *resizer.Resizer
	WithSnapshotter bool // --with-snapshotter
	Snapshotter     *snapshotter.Snapshotter
}

// New has the default of every setting.
func New() *Plane {
	p := &Plane{
		Provisioner: provisioner.New(), Controllers: controllers.New(), Attacher: attacher.New(),
		Resizer: resizer.New(), Snapshotter: snapshotter.New(),
	}
	p.Gates.Include(p.Controllers.Gates, p.Attacher.Gates, p.Resizer.Gates, p.Snapshotter.Gates)
	return p
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	p := New()
	p.Version, p.Controllers.Version, p.Attacher.Version = program.Version, program.Version, program.Version
	return cli.NewRoleCommand(program, p, &cobra.Command{
		Use:   "plane",
		Short: "Controllers, csi-provisioner and csi-resizer in one process, with fewer writes",
		Long: `The roles controllers, csi-provisioner and csi-resizer in one process. Claims
pass from the binder to the provisioner through a queue in memory, so that a
volume takes four writes to provision and bind, and four to delete. Other
drivers keep their own provisioners, which are asked by annotations. With
--with-attacher, csi-attacher runs in the process too, and gets the driver's
VolumeAttachments through a queue in memory. With --with-snapshotter,
csi-snapshotter and the snapshot-controller of the cluster run in it, and a
snapshot takes four writes to take, and three to delete.

The flags and feature gates are those of all these roles, except for --workers,
in whose place is --worker-threads; a flag that several of them have is for all
of them, but the workers and delays of the controllers are their own. The
resizer runs if the driver can expand or modify volumes. It uses the lease, the
number of workers and the delays of csi-provisioner: no other csi-resizer may
run for the driver. The service account needs the permissions of all roles.`,
		Example: `  purser plane --csi-address=/run/csi/socket --leader-election`,
	})
}

// AddFlags binds every setting to its flag.
func (p *Plane) AddFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Controllers", func(f *pflag.FlagSet) {
		p.Controllers.WantedFlag(f)
		f.UintVar(
			&p.Controllers.Workers,
			"controller-threads",
			controllers.DefaultWorkers,
			"objects of one controller that are reconciled in parallel",
		)
	})
	cli.Grouped(f, "Attaching", func(f *pflag.FlagSet) {
		f.BoolVar(&p.WithAttacher, "with-attacher", false,
			"run csi-attacher as well, under its own lease; the service account needs its permissions too")
		p.Controllers.DetachFlags(f)
	})
	cli.Grouped(f, "Snapshots", func(f *pflag.FlagSet) {
		f.BoolVar(&p.WithSnapshotter, "with-snapshotter", false,
			"run csi-snapshotter and the cluster's snapshot-controller as well, under the lease of csi-provisioner; "+
				"there must be no other of either; the service account needs their permissions too")
	})
	p.Provisioner.AddFlags(f)
	p.Resizer.AddExpansionFlags(f)
	cli.AddOthers(f, p.Controllers.AddFlags, "worker-threads", "retry-interval-start", "retry-interval-max")
	for _, role := range []cli.FlaggedRole{p.Attacher, p.Resizer, p.Snapshotter} {
		cli.AddOthers(f, role.AddFlags, replaced...)
	}
	p.Resizer.Given = f.Changed
}

// replaced are flags of the roles that a flag of csi-provisioner replaces, since the process has one
// number of workers, or one of plane.
var replaced = []string{"workers", "snapshot-controller"}

// Validate implements role.
func (p *Plane) Validate() error {
	_, wanted := p.Controllers.Enabled()
	var hosted []error
	if p.WithAttacher {
		hosted = append(hosted, p.Attacher.ValidateOwn())
	}
	if p.WithSnapshotter {
		hosted = append(hosted, p.Snapshotter.ValidateOwn())
	}
	return errors.Join(wanted, errors.Join(hosted...), p.Controllers.ValidateDetach(),
		cli.Need(p.Controllers.Workers > 0, "--controller-threads=0: must be at least 1, or nothing is worked on"),
		p.Provisioner.Validate(), p.Resizer.ValidateExpansion(),
		cli.Need(!p.WithSnapshotter || !p.NodeDeployment.Enabled,
			"--with-snapshotter: not with --node-deployment; run `purser snapshot-controller` once for the cluster, "+
				"and csi-snapshotter beside each driver"))
}

// Run implements role. When one of the roles ends, the others are stopped, and the process is
// restarted with all of them.
func (p *Plane) Run(ctx context.Context) error {
	ctx, err := p.StartLogging(ctx, p.Log)
	if err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	queue := handoff.New()
	c := p.Controllers
	p.Cache = process.NewSharedCache(ctx)
	defer p.Cache.Close()
	p.ShareThrottle()
	p.serveOnce()
	c.APIAccess, c.Queue, c.Log = p.APIAccess, queue, log.WithName("controllers")
	c.Election = electionOfControllers(p.Election, c.Election.Holder)
	p.InProcess, p.Log = provisioner.ColocatedSettings{
		Queue:          queue,
		DropProtection: true,
		Attacher:       p.WithAttacher,
	}, log.WithName("csi-provisioner")
	p.Locks = &csirpc.VolumeLocks{}
	p.Backlog = &reconcile.Backlog{Remaining: telemetry.NewGauge(c.Colocated.Registry, telemetry.MetricBacklog)}
	c.Backlog, p.Attacher.Backlog = p.Backlog, p.Backlog
	p.Spans = telemetry.NewSpans(rand.Text())
	c.Spans, p.Attacher.Spans = p.Spans, p.Spans
	var sent func()
	p.Tracing, sent = process.StartTracing(ctx, "plane", p.Version, p.TraceSettings)
	defer sent()
	c.Tracing, p.Attacher.Tracing = p.Tracing, p.Tracing
	p.Host(&p.Resizer.Common)
	c.OthersRead = append(provisioner.Reads(), resizer.Reads()...)
	if p.WithSnapshotter {
		p.hostSnapshotter()
	}
	p.Notices = &cli.Notices{} // they are logged already
	p.Colocated = process.Colocated{
		Name: "controllers", Ready: c.Ready, Renewing: c.Renewing, Registry: c.Colocated.Registry,
	}
	parts := map[string]func(context.Context) error{"controllers": c.Run, "csi-provisioner": p.Provisioner.Run}
	if p.WithAttacher {
		c.Attachments = handoff.NewAttachments()
		p.prepareAttacher(c.Attachments, log)
		parts["csi-attacher"] = p.Attacher.Run
	}
	return process.RunParts(ctx, parts)
}

// serveOnce leaves the HTTP endpoint to the provisioner. The flag sets it for each role.
func (p *Plane) serveOnce() {
	for _, s := range []*process.HTTPSettings{&p.Controllers.HTTPSettings, &p.Attacher.HTTPSettings} {
		s.HTTPEndpoint, s.MetricsAddress = "", ""
	}
}

// prepareAttacher gives the attacher the settings of the process. Its cache is its own: it reads
// more of a volume than the other roles keep.
func (p *Plane) prepareAttacher(together *handoff.Attachments, log logr.Logger) {
	a := p.Attacher
	a.APIAccess, a.Connection = p.APIAccess, p.Connection
	a.Cache, a.Workers, a.RetryStart, a.RetryMax = nil, p.Workers, p.RetryStart, p.RetryMax
	a.Election = electionOfControllers(p.Election, a.Election.Holder)
	a.InProcess, a.Log, a.Locks = together, log.WithName("csi-attacher"), p.Locks
	a.Colocated = process.Colocated{Registry: p.Controllers.Colocated.Registry}
}

// hostSnapshotter has the snapshot roles run within the provisioner, under its lease. The
// snapshot-controller, csi-snapshotter, csi-provisioner and the protection of claims know of each
// other's work in memory.
func (p *Plane) hostSnapshotter() {
	together := handoff.NewSnapshots(clock.RealClock{})
	p.Controllers.Snapshots, p.InProcess.Snapshots = together, together
	p.Controllers.OthersRead = append(p.Controllers.OthersRead, snapshotter.Reads()...)
	s := p.Snapshotter
	s.Controller, s.InProcess = true, snapshotter.ColocatedSettings{
		Snapshots: together, NoJournal: p.Journal.Intents == provisioner.IntentsOff,
		SkipUnreadable: p.Journal.SkipUnreadable,
	}
	p.Host(&p.Resizer.Common, &s.Common)
}

// electionOfControllers returns the election of the controllers in the same process. It has its own
// lease and holder identity, and not the lock of v1, which had no controllers (O-3).
func electionOfControllers(provisioner process.Election, identity string) process.Election {
	provisioner.Holder, provisioner.LockType = identity, process.LockLeases
	return provisioner
}
