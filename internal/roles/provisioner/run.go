package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	reclaiming "github.com/purser-csi/purser/internal/controllers/reclaim"
	"github.com/purser-csi/purser/internal/controllers/sourceprotection"
	"github.com/purser-csi/purser/internal/controllers/volumelock"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/reclaim"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/telemetry"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

// Run implements Role.
func (p *Provisioner) Run(ctx context.Context) error {
	return sidecar.Run(ctx, &p.Config, sidecar.Role{
		Name: "csi-provisioner", Lease: p.leaseName, EventSource: process.EventSource, Trim: p.trim(), Drain: p.drainTime(),
		KeepLease: !p.Gates.Enabled(GateReleaseLeaseOnShutdown),
		Permissions: func(ctx context.Context, s *sidecar.Sidecar) (process.PermissionCheck, error) {
			return (&builder{s, p}).permissionCheck(ctx)
		},
		Add: func(ctx context.Context, s *sidecar.Sidecar) error {
			w := &builder{s, p}
			if err := w.findPlace(ctx); err != nil {
				return err
			}
			return w.controllers(ctx)
		},
	})
}

// builder builds the controllers of the provisioner from the parts of the sidecar.
type builder struct {
	*sidecar.Sidecar

	role *Provisioner
}

// drainTime returns how long calls in flight may take when the process ends: the timeout of one
// call to the driver, and the time for the write that follows.
func (p *Provisioner) drainTime() time.Duration {
	return max(20*time.Second, p.longestCall()+5*time.Second, p.Together.Longest+5*time.Second)
}

// createTimeout and deleteTimeout are how long one call may take (U-29).
func (p *Provisioner) createTimeout() time.Duration { return cmp.Or(p.Pace.CreateTimeout, p.Timeout) }

func (p *Provisioner) deleteTimeout() time.Duration { return cmp.Or(p.Pace.DeleteTimeout, p.Timeout) }

// deleteWorkers returns how many DeleteVolume calls are in flight at most (U-21).
func (p *Provisioner) deleteWorkers() int { return int(cmp.Or(p.Pace.DeleteWorkers, p.Pace.Workers)) }

func (p *Provisioner) longestCall() time.Duration { return max(p.createTimeout(), p.deleteTimeout()) }

// parts are what the controllers share.
type parts struct {
	*builder

	journal  counted
	measures *telemetry.Metrics
	settings reconcile.Settings
	volumes  *kube.OwnWrites[*corev1.PersistentVolume]
	creator  csi.ControllerClient // for CreateVolume; the publisher of capacities observes the answers

	// These are set when they are added.
	reclaims *reclaiming.Controller
	sources  *sourceprotection.Controller
	claims   *provisioning.Controller
}

func (w *builder) newParts() (*parts, error) {
	w.role.Locks = cmp.Or(w.role.Locks, &volumelock.Locks{})
	journal, err := w.journal()
	if err != nil {
		return nil, err
	}
	measures := telemetry.NewMetrics(w.Registry, journal.Len)
	return &parts{
		builder: w, journal: journal, measures: measures, settings: w.settings(measures),
		volumes: kube.NewOwnWrites[*corev1.PersistentVolume](), creator: w.Conn.Controller(),
	}, nil
}

// controllers adds the enabled controllers, and those of other roles.
func (w *builder) controllers(ctx context.Context) error {
	p, err := w.newParts()
	if err != nil {
		return err
	}
	for _, c := range w.enabled() {
		if !c.isPossible(w) {
			logr.FromContextOrDiscard(ctx).Info(c.Absent)
			continue
		}
		if err := c.add(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	if add := w.role.Together.Add; add != nil {
		return add(ctx, w.Sidecar)
	}
	return nil
}

func (w *builder) enabled() []controller {
	return slices.DeleteFunc(all(), func(c controller) bool { return !c.enabled(w) })
}

// reclaimConfig returns what all controllers that delete volumes have in common.
func (p *parts) reclaimConfig() reclaiming.Config {
	settings := p.settings
	settings.Workers = p.role.deleteWorkers()
	return reclaiming.Config{
		Writer: p.Manager.GetClient(), Volumes: p.volumes, Calls: p.role.Locks,
		Driver:    reclaim.Driver{Name: p.Driver.Name, Controller: p.Driver.Controller},
		Deletions: telemetry.NewDeletions(p.Registry), Timeout: p.role.deleteTimeout(),
		InFlight: p.measures.InFlight, Settings: settings,
	}
}

func addReclaim(ctx context.Context, p *parts) error {
	cfg := p.reclaimConfig()
	cfg.Cached, cfg.Live, cfg.AllVolumes = p.readers()
	cfg.CSI, cfg.Journal, cfg.DropProtection = p.Conn.Controller(), p.journal, p.role.Together.DropProtection
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
		Cached: cached, Live: live, Writer: p.Manager.GetClient(),
		Volumes: p.volumes, Journal: p.journal, HandedOver: given, Sharing: p.reclaims.Sharing, Sources: p.sources,
		CSI: p.creator, Calls: p.role.Locks,
		Driver: provision.Driver{
			Name: p.Driver.Name, Plugin: p.Driver.Plugin, Controller: p.Driver.Controller, HasTopology: p.topology(),
			MultiWriters: p.Driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: p.role.options(p.Driver.Name), Provisions: telemetry.NewProvisions(p.Registry),
		Timeout: p.role.createTimeout(), Discard: p.role.deleteTimeout(), InFlight: p.measures.InFlight, Settings: p.settings,
	})
	telemetry.NewOldest(p.Registry, p.claims.Oldest)
	return p.claims.AddTo(ctx, p.Manager)
}

// settings returns the settings of all controllers of the role.
func (w *builder) settings(measures *telemetry.Metrics) reconcile.Settings {
	pace := w.role.Pace
	return reconcile.Settings{
		Workers: int(pace.Workers), Backoff: reconcile.Backoff{First: pace.RetryStart, Most: pace.RetryMax},
		Clock: clock.RealClock{}, Events: w.Events, Decided: measures.Decisions,
	}
}

// receiveFromBinder returns the queue of claims from the binder in this process, registered for as
// long as this provisioner leads; nil without such a binder.
func (w *builder) receiveFromBinder() (provisioning.HandedOver, error) {
	queue := w.role.Together.Queue
	if queue == nil {
		return nil, nil
	}
	return queue, w.Manager.Add(handoff.Registration{Queue: queue, Driver: w.Driver.Name})
}

func (p *Provisioner) options(driver string) provision.Options {
	return provision.Options{
		NamePrefix: p.Volumes.NamePrefix, NameUUIDLength: p.Volumes.NameUUIDLength, NameTemplate: p.Volumes.NameTemplate,
		DefaultFSType: p.Volumes.DefaultFSType, MinVolumeSize: p.Volumes.MinVolumeSize,
		ExtraCreateMetadata: p.Volumes.ExtraMetadata, ControllerPublishReadOnly: p.Volumes.PublishRO,
		Topology: p.Topology.rules(), Node: p.nodeOptions(),
		KeepVolumeMode: p.Sources.KeepVolumeMode, CrossNamespace: p.Gates.Enabled(GateCrossNamespaceSource),
		IgnoreAttributes: !p.Gates.Enabled(GateVolumeAttributesClass),
		DriverMetadata:   p.Volumes.DriverMetadata, VolumeMetadata: p.Volumes.VolumeMetadata,
		Identity: fmt.Sprintf(
			"%d-%d-%s",
			time.Now().UnixMilli(),
			rand.IntN(10_000),
			p.placeName(driver),
		), //nolint:gosec // ST-9: it is not a secret
	}
}
