package provisioner

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/reclaim"
	"github.com/purser-csi/purser/internal/telemetry"
)

// addOrphanReport registers the audit of orphaned volumes.
func addOrphanReport(_ context.Context, p *parts) error {
	found := prometheus.NewGauge(
		prometheus.GaugeOpts{Name: telemetry.MetricOrphans.Name, Help: telemetry.MetricOrphans.Help},
	)
	p.Registry.MustRegister(found)
	return p.Manager.Add(reclaim.NewOrphanAudit(reclaim.OrphanAuditConfig{
		Cached: p.Cached, CSI: p.Conn.Controller(), Driver: p.Driver.Name, Journal: p.journal,
		Calls:    csirpc.NewCaller(csirpc.CallerConfig{Locks: p.role.Locks, InFlight: p.measures.InFlight}),
		Interval: p.role.Journal.OrphanAudit, Timeout: p.role.Timeout, Orphans: found,
	}))
}
