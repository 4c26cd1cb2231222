package provisioner

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purser-csi/purser/internal/controllers/orphanreport"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/telemetry"
)

// addOrphanReport registers the audit of orphaned volumes.
func addOrphanReport(_ context.Context, p *parts) error {
	orphans := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: telemetry.MetricOrphans.Name, Help: telemetry.MetricOrphans.Help},
	)
	p.Registry.MustRegister(orphans)
	return p.Manager.Add(orphanreport.New(orphanreport.Config{
		Cached: p.Manager.GetClient(), CSI: p.Conn.Controller(), Driver: p.Driver.Name, Journal: p.journal,
		Calls:    csirpc.NewCaller(csirpc.CallerConfig{Locks: p.role.Locks, InFlight: p.measures.InFlight}),
		Interval: p.role.Journal.OrphanAudit, Timeout: p.role.Timeout, Orphans: orphans,
	}))
}
