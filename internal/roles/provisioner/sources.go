package provisioner

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	provisioning "github.com/purser-csi/purser/internal/controllers/provision"
	"github.com/purser-csi/purser/internal/controllers/sourceprotection"
	"github.com/purser-csi/purser/internal/reconcile"
)

// sources returns the controller of the finalizers on sources. claims is set before the controllers
// run, since the two refer to each other.
func (w *builder) sources(settings reconcile.Settings, claims **provisioning.Controller) *sourceprotection.Controller {
	// A VolumeSnapshot that is deleted after a burst of restores waits for its finalizer's turn.
	settings.Workers = int(max(w.role.Sources.CloneWorkers, w.role.Pace.Workers, 1))
	sweep := max(w.role.Sources.SnapshotSweep, 0)
	if !w.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT] {
		sweep = 0
	}
	var elsewhere func(context.Context) ([]*csi.VolumeContentSource, error)
	if w.role.NodeDeployment.Enabled {
		elsewhere = w.requestsElsewhere
	}
	return sourceprotection.New(sourceprotection.Config{
		Settings: settings, Cached: w.Manager.GetClient(), Live: w.Manager.GetAPIReader(), Writer: w.Manager.GetClient(),
		Driver: w.Driver.Name, Sweep: sweep, Elsewhere: elsewhere,
		Asks:     func(claim *corev1.PersistentVolumeClaim) bool { return (*claims).Asks(claim) },
		Requests: func(ctx context.Context) ([]*csi.VolumeContentSource, error) { return (*claims).ContentSources(ctx) },
		Flushed:  func(ctx context.Context) error { return (*claims).Journal.Flushed(ctx) },
	})
}
