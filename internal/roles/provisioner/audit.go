package provisioner

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/purser-csi/purser/internal/controllers/orphanreport"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/telemetry"
)

// audit registers the audit of orphaned volumes if --orphan-audit-interval is set and the driver
// supports ListVolumes.
func (w *builder) audit(
	ctx context.Context, journal orphanreport.Journal, inFlight *prometheus.GaugeVec,
) error {
	if w.role.Journal.OrphanAudit == 0 {
		return nil
	}
	if !w.Driver.Controller[csi.ControllerServiceCapability_RPC_LIST_VOLUMES] {
		logr.FromContextOrDiscard(ctx).
			Info("--orphan-audit-interval has no effect: the driver does not have the capability LIST_VOLUMES")
		return nil
	}
	orphans := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: telemetry.MetricOrphans.Name, Help: telemetry.MetricOrphans.Help},
	)
	w.Registry.MustRegister(orphans)
	err := w.Manager.Add(orphanreport.New(orphanreport.Config{
		Cached: w.Manager.GetClient(), CSI: w.Conn.Controller(), Driver: w.Driver.Name, Journal: journal,
		Calls:    csirpc.NewCaller(csirpc.CallerConfig{Locks: w.role.Locks, InFlight: inFlight}),
		Interval: w.role.Journal.OrphanAudit, Timeout: w.role.Timeout, Orphans: orphans,
	}))
	if err != nil {
		return fmt.Errorf("audit of volumes: %w", err)
	}
	return nil
}
