package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	reclaiming "github.com/purser-csi/purser/internal/controllers/reclaim"
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

func (w *builder) controllers(ctx context.Context) error {
	w.role.Locks = cmp.Or(w.role.Locks, &volumelock.Locks{})
	if w.role.Reap.Mode != "" {
		return w.reaper(ctx)
	}
	journal, err := w.journal()
	if err != nil {
		return err
	}
	measures := telemetry.NewMetrics(w.Registry, journal.Len)
	volumes, underWay := kube.NewOwnWrites[*corev1.PersistentVolume](), w.role.Locks
	settings := w.settings(measures)
	given, err := w.receiveFromBinder()
	if err != nil {
		return err
	}
	driver, err := w.capacity(ctx, settings, underWay, measures.InFlight)
	if err != nil {
		return err
	}
	cached, live, all := w.readers()
	deleting := settings
	deleting.Workers = w.role.deleteWorkers()
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: cached, Live: live, AllVolumes: all, Writer: w.Manager.GetClient(), Volumes: volumes,
		CSI: w.Conn.Controller(), Calls: underWay,
		Driver: reclaim.Driver{
			Name:       w.Driver.Name,
			Controller: w.Driver.Controller,
		}, Deletions: telemetry.NewDeletions(w.Registry),
		Journal: journal, DropProtection: w.role.Together.DropProtection, Timeout: w.role.deleteTimeout(),
		InFlight: measures.InFlight, Settings: deleting,
	})
	var claims *provisioning.Controller
	sources := w.sources(settings, &claims)
	claims = provisioning.New(provisioning.Config{
		Cached: cached, Live: live, Writer: w.Manager.GetClient(),
		Volumes: volumes, Journal: journal, HandedOver: given, Sharing: reclaims.Sharing, Sources: sources,
		CSI: driver, Calls: underWay,
		Driver: provision.Driver{
			Name: w.Driver.Name, Plugin: w.Driver.Plugin, Controller: w.Driver.Controller, HasTopology: w.topology(),
			MultiWriters: w.Driver.Controller[csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		},
		Options: w.role.options(w.Driver.Name), Provisions: telemetry.NewProvisions(w.Registry),
		Timeout: w.role.createTimeout(), Discard: w.role.deleteTimeout(), InFlight: measures.InFlight, Settings: settings,
	})
	if err := errors.Join(claims.AddTo(ctx, w.Manager), sources.AddTo(ctx, w.Manager),
		reclaims.AddTo(ctx, w.Manager)); err != nil {
		return err
	}
	if add := w.role.Together.Add; add != nil {
		if err := add(ctx, w.Sidecar); err != nil {
			return err
		}
	}
	telemetry.NewOldest(w.Registry, claims.Oldest)
	return w.audit(ctx, journal, measures.InFlight)
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
