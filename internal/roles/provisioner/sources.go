package provisioner

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/sources"
	source "github.com/purser-csi/purser/internal/sources/rules"
)

// addSourceProtection registers the controller of the finalizers on sources. It and the controller
// of claims refer to each other, which is set before either runs.
func addSourceProtection(ctx context.Context, p *parts) error {
	settings := p.settings
	// A VolumeSnapshot that is deleted after a burst of restores waits for its finalizer's turn.
	settings.Workers = int(max(p.role.Sources.CloneWorkers, p.role.Workers, 1))
	sweep := max(p.role.Sources.SnapshotSweep, 0)
	if !p.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		sweep = 0
	}
	var elsewhere func(context.Context) ([]source.Request, error)
	if p.role.NodeDeployment.Enabled {
		elsewhere = p.requestsElsewhere
	}
	p.sources = sources.New(sources.Config{
		Settings: settings, Cached: p.Cached, Live: p.Manager.GetAPIReader(),
		Writer: p.Writer,
		Driver: p.Driver.Name, Sweep: sweep, Elsewhere: elsewhere,
		Asks:     func(claim *corev1.PersistentVolumeClaim) bool { return p.claims.Asks(claim) },
		Requests: func(ctx context.Context) ([]source.Request, error) { return p.claims.SourceRequests(ctx) },
		Flushed:  func(ctx context.Context) error { return p.journal.Flushed(ctx) },
	})
	return p.sources.AddTo(ctx, p.Manager)
}
