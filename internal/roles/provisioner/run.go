package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/purser-csi/purser/internal/handoff"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/sources"
	"github.com/purser-csi/purser/internal/telemetry"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Run implements Role.
func (p *Provisioner) Run(ctx context.Context) error {
	return sidecar.Run(ctx, &p.Config, p.Role())
}

// Role returns the role as package sidecar runs it.
func (p *Provisioner) Role() sidecar.Role {
	all := &parts{builder: &builder{role: p}}
	return sidecar.Role{
		Name: "csi-provisioner", Lease: p.leaseName, EventSource: process.EventSource, Drain: p.drainTime(),
		KeepLease: !p.Gates.Enabled(GateReleaseLeaseOnShutdown),
		Table: func(_ context.Context, s *sidecar.Sidecar) ([]registry.Controller, error) {
			all.Sidecar = s
			return all.table(), nil
		},
		Trim:  p.trim,
		Begin: func(ctx context.Context, _ *sidecar.Sidecar) error { return all.begin(ctx) },
		Check: func(ctx context.Context, _ *sidecar.Sidecar, check *process.PermissionCheck) {
			all.addSecrets(ctx, check)
		},
	}
}

// builder builds the controllers of the provisioner from the parts of the sidecar.
type builder struct {
	*sidecar.Sidecar

	role *Provisioner
}

// drainTime returns how long calls in flight may take when the process ends: the timeout of one
// call to the driver, and the time for the write that follows.
func (p *Provisioner) drainTime() time.Duration {
	return max(20*time.Second, p.longestCall()+5*time.Second)
}

// createTimeout and deleteTimeout are how long one call may take (U-29).
func (p *Provisioner) createTimeout() time.Duration { return cmp.Or(p.Pace.CreateTimeout, p.Timeout) }

func (p *Provisioner) deleteTimeout() time.Duration { return cmp.Or(p.Pace.DeleteTimeout, p.Timeout) }

// deleteWorkers returns how many DeleteVolume calls are in flight at most (U-21).
func (p *Provisioner) deleteWorkers() int { return int(cmp.Or(p.Pace.DeleteWorkers, p.Workers)) }

func (p *Provisioner) longestCall() time.Duration { return max(p.createTimeout(), p.deleteTimeout()) }

// parts are what the controllers share.
type parts struct {
	*builder

	journal  counted
	measures *telemetry.Metrics
	settings reconcile.Settings   // of the controller that is being added
	creator  csi.ControllerClient // for CreateVolume; the publisher of capacities observes the answers
	// snapshots is for restores, and cachedSnapshots has VolumeSnapshots; nil without such a cache.
	snapshots, cachedSnapshots client.Reader

	// These are set when they are added.
	reclaims *reclaiming.Controller
	sources  *sources.Controller
	claims   *provisioning.Controller
}

// begin prepares what the controllers share.
func (p *parts) begin(ctx context.Context) (err error) {
	if err := p.findPlace(ctx); err != nil {
		return err
	}
	if p.journal, err = p.openJournal(); err != nil {
		return err
	}
	p.measures = telemetry.NewMetrics(p.Registry, p.journal.Len)
	p.creator = p.Conn.Controller()
	return nil
}

// reclaimConfig returns what all controllers that delete volumes have in common.
func (p *parts) reclaimConfig() reclaiming.Config {
	settings := p.settings
	settings.Workers = p.role.deleteWorkers()
	return reclaiming.Config{
		Writer: p.Writer, Calls: p.role.Locks,
		Driver:    reclaim.Driver{Name: p.Driver.Name, Controller: p.Driver.Controller},
		Deletions: telemetry.NewDeletions(p.Registry), Timeout: p.role.deleteTimeout(),
		InFlight: p.measures.InFlight, CallLimit: p.measures.CallLimit, Settings: settings,
	}
}

func addReclaim(ctx context.Context, p *parts) error {
	cfg := p.reclaimConfig()
	cfg.Cached, cfg.Live, cfg.AllVolumes = p.readers()
	cfg.CSI, cfg.Journal, cfg.DropProtection = p.Conn.Controller(), p.journal, p.role.InProcess.DropProtection
	cfg.DropAttacher = p.role.InProcess.Attacher
	p.reclaims = reclaiming.New(cfg)
	return p.reclaims.AddTo(ctx, p.Manager)
}

func addProvision(ctx context.Context, p *parts) error {
	given, err := p.receiveFromBinder()
	if err != nil {
		return err
	}
	cached, live, _ := p.readers()
	p.claims = provisioning.New(provisioning.Config{
		Cached: cached, Live: live, Writer: p.Writer,
		Journal: p.journal, HandedOver: given, Sharing: p.reclaims.Sharing, Sources: p.sources,
		Snapshots: p.snapshots,
		CSI:       p.creator, Calls: p.role.Locks,
		Driver: provision.Driver{
			Name: p.Driver.Name, Plugin: p.Driver.Plugin, Controller: p.Driver.Controller, HasTopology: p.topology(),
			MultiWriters: p.Driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: p.role.options(p.Driver.Name), Provisions: telemetry.NewProvisions(p.Registry),
		Timeout: p.role.createTimeout(), Discard: p.role.deleteTimeout(), InFlight: p.measures.InFlight,
		CallLimit: p.measures.CallLimit,
		Settings:  p.settings,
	})
	telemetry.NewOldest(p.Registry, p.claims.Oldest)
	return p.claims.AddTo(ctx, p.Manager)
}

// receiveFromBinder returns the queue of claims from the binder in this process, registered for as
// long as this provisioner leads; nil without such a binder.
func (w *builder) receiveFromBinder() (provisioning.HandedOver, error) {
	queue := w.role.InProcess.Queue
	if queue == nil {
		return nil, nil
	}
	return queue, w.Manager.Add(handoff.Registration{Queue: queue, Driver: w.Driver.Name})
}

func (p *Provisioner) options(driver string) provision.Options {
	return provision.Options{
		NamePrefix: p.Volumes.NamePrefix, NameUUIDLength: p.Volumes.NameUUIDLength,
		NameTemplate:  p.Volumes.NameTemplate,
		DefaultFSType: p.Volumes.DefaultFSType, MinVolumeSize: p.Volumes.MinVolumeSize,
		ExtraCreateMetadata: p.Volumes.ExtraMetadata, ControllerPublishReadOnly: p.Volumes.PublishRO,
		Topology: p.Topology.rules(), Node: p.nodeOptions(), Attaches: p.InProcess.Attacher,
		KeepVolumeMode: p.Sources.KeepVolumeMode, CrossNamespace: p.Gates.Enabled(GateCrossNamespaceSource),
		IgnoreAttributes: !p.Gates.Enabled(GateVolumeAttributesClass),
		DriverMetadata:   p.Volumes.DriverMetadata, VolumeMetadata: p.Volumes.VolumeMetadata,
		Identity: fmt.Sprintf(
			"%d-%d-%s",
			time.Now().UnixMilli(),
			rand.IntN(10_000),
			p.PlaceName(driver),
		), //nolint:gosec // ST-9: it is not a secret
	}
}
