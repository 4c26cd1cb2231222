package healthmonitor

import (
	"context"
	"errors"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/purser-csi/purser/internal/health"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Name is the name of the role, upstream's.
const Name = "csi-external-health-monitor-controller"

// Monitor is the role csi-external-health-monitor-controller: the drop-in for the external-health-monitor.
type Monitor struct {
	sidecar.Common

	ListEvery  time.Duration // --list-volumes-interval
	CheckEvery time.Duration // --monitor-interval

	addEvery, resync time.Duration
}

// New returns the role with the default of every setting.
func New() *Monitor {
	m := &Monitor{}
	m.Common = sidecar.NewCommon(sidecar.Kind{
		Name:        Name,
		LeasePrefix: "external-health-monitor-leader-", EventsPrefix: "csi-pv-monitor-controller-", // HM-17, HM-15
		Timeout: 15 * time.Second, WorkersFlag: "worker-threads", Table: m.table,
	})
	m.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	return m
}

// Command returns the command of the role.
func Command(program cli.Program) *cobra.Command {
	m := New()
	m.Version = program.Version
	return cli.NewDropInCommand(program, m, &cobra.Command{
		Use:         Name,
		Aliases:     []string{"external-health-monitor-controller"},
		Annotations: map[string]string{cli.SingleDash: "true"},
		Short:       "Show on claims which volumes of one CSI driver have problems",
		Long: `Show on each claim whether its volume is degraded, cannot be used or has lost
data, as one CSI driver reports it (CSI 1.13): in status.healthStatus where the
cluster has the gate CSIVolumeHealth, in events, and in metrics.

It replaces the external-health-monitor of a CSI driver. Flags can have one
dash or two, as with upstream.`,
		Example: `  purser csi-external-health-monitor-controller --csi-address=/run/csi/socket \
    --leader-election --http-endpoint=:8080`,
	})
}

// AddFlags binds every setting to its flag (HM-1 to HM-8, HM-40).
func (m *Monitor) AddFlags(f *pflag.FlagSet) {
	m.AddOwnFlags(f)
	cli.Grouped(f, "Health of volumes", func(f *pflag.FlagSet) {
		f.DurationVar(&m.resync, "resync", 10*time.Minute,
			"has no effect: changes are watched, and no resync is needed")
		cli.Ranged(f, cli.Range{}, "resync")
	})
	m.AddCommonFlags(f)
}

// AddOwnFlags binds the settings of no other role to their flags.
func (m *Monitor) AddOwnFlags(f *pflag.FlagSet) {
	cli.Grouped(f, "Health of volumes", func(f *pflag.FlagSet) {
		f.DurationVar(&m.ListEvery, "list-volumes-interval", 5*time.Minute,
			"pause between two lists of the volumes with problems, of a driver that lists them")
		f.DurationVar(&m.CheckEvery, "monitor-interval", time.Minute,
			"how often each volume is checked, of a driver that lists none; less often where that were more than 10 "+
				"volumes a second")
		f.DurationVar(&m.addEvery, "volume-list-add-interval", 5*time.Minute,
			"has no effect: volumes are watched, and checked once they are bound")
		cli.Ranged(f, cli.Range{}, "volume-list-add-interval")
		cli.Ranged(f, cli.Range{Least: "1s", Most: "8760h"}, "list-volumes-interval", "monitor-interval")
	})
	const gone = "has no effect: nodes are not watched any more, as in upstream since CSI 1.13" // HM-40
	cli.AddRetired(f, m.Notices,
		cli.RetiredFlag{Name: "enable-node-watcher", Kind: "bool", Now: gone, Accept: cli.IsBool},
		cli.RetiredFlag{Name: "node-list-add-interval", Kind: "duration", Now: gone, Accept: cli.IsDuration})
}

// Validate implements cli.Role.
func (m *Monitor) Validate() error { return errors.Join(m.ValidateCommon(), m.ValidateOwn()) }

// ValidateOwn lists the mistakes in the settings of no other role.
func (m *Monitor) ValidateOwn() error {
	return errors.Join(
		cli.Need(m.ListEvery >= time.Second, "--list-volumes-interval=%s: must be at least 1s", m.ListEvery),
		cli.Need(m.CheckEvery >= time.Second, "--monitor-interval=%s: must be at least 1s", m.CheckEvery),
	)
}

// The capabilities of a driver that reports the health of its volumes (HM-20, HM-21).
const (
	listsHealth = csi.ControllerServiceCapability_RPC_LIST_VOLUME_HEALTH
	getsHealth  = csi.ControllerServiceCapability_RPC_GET_VOLUME_HEALTH
)

// errNothingToDo has upstream's words first (HM-41).
var errNothingToDo = sidecar.NothingToDo{
	Alone: "The CSI driver cannot be monitored: it has no GET_VOLUME_HEALTH of CSI 1.13 in its controller, so this " +
		"program has nothing to do; take it out of the pod",
	Hosted: "the csi driver has no GET_VOLUME_HEALTH, so the health of its volumes is not monitored",
}

// table lists the controller (HM-41, HM-49).
func (m *Monitor) table(_ context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
	if s.Conn != nil && !s.Driver.Controller[getsHealth] {
		return nil, errNothingToDo
	}
	return []registry.Controller{{
		Name: health.Name,
		Grants: []registry.Grant{
			registry.Allow("", "persistentvolumes", registry.Read...),
			registry.Allow("", "persistentvolumeclaims", registry.Read...),
			registry.Allow("", "persistentvolumeclaims/status", registry.Write...),
		},
		Fields: kube.HealthFields,
		Add: func(ctx context.Context, settings reconcile.Settings) error {
			return health.New(health.Config{
				Settings: settings, Cached: s.Cached, Writer: s.Writer,
				CSI: s.Conn.Controller(), Driver: s.Driver.Name, Timeout: m.Timeout, InFlight: s.InFlight(),
				Measures: telemetry.NewVolumeHealth(s.Registry), Lists: s.Driver.Controller[listsHealth],
				ListEvery: m.ListEvery, CheckEvery: m.CheckEvery,
			}).AddTo(ctx, s.Manager)
		},
	}}, nil
}
