package csirpc

import (
	"context"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"github.com/kubernetes-csi/csi-lib-utils/metrics"
	dto "github.com/prometheus/client_model/go"

	"github.com/purser-csi/purser/internal/objects"
)

// CallMetrics counts and times the calls to one driver. Its name can be set while calls are in
// flight. Calls before GetPluginInfo have driver_name="unknown-driver", and all calls after it have
// the driver's name. Only a driver that took the place of an in-tree plugin has the label migrated
// (ME-4); as upstream, its calls before GetPluginInfo are not kept (ST-7).
type CallMetrics struct {
	metrics.CSIMetricsManager // guarded by mu
	mu                        sync.RWMutex
	name                      string
}

// NewCallMetrics returns the metrics of a driver whose name is not known yet.
func NewCallMetrics() *CallMetrics {
	return &CallMetrics{CSIMetricsManager: newManager("")}
}

func newManager(driver string, more ...metrics.MetricsManagerOption) metrics.CSIMetricsManager {
	return metrics.NewCSIMetricsManagerWithOptions(driver, append(more,
		metrics.WithProcessStartTime(false), metrics.WithSubsystem(metrics.SubsystemSidecar))...)
}

// Gather implements prometheus.Gatherer.
func (m *CallMetrics) Gather() ([]*dto.MetricFamily, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.GetRegistry().Gather()
}

// RecordMetrics implements metrics.CSIMetricsManager.
func (m *CallMetrics) RecordMetrics(operation string, err error, took time.Duration) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.CSIMetricsManager.RecordMetrics(operation, err, took)
}

// HaveAdditionalLabel implements metrics.CSIMetricsManager.
func (m *CallMetrics) HaveAdditionalLabel(name string) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.CSIMetricsManager.HaveAdditionalLabel(name)
}

// WithLabelValues implements metrics.CSIMetricsManager. Only a manager whose name does not change
// any more has labels to give values to.
func (m *CallMetrics) WithLabelValues(labels map[string]string) (metrics.CSIMetricsManager, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.CSIMetricsManager.WithLabelValues(labels)
}

// SetDriverName implements metrics.CSIMetricsManager.
func (m *CallMetrics) SetDriverName(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case name == m.name: // a driver that came back
	case objects.InTree(name) != "":
		m.CSIMetricsManager = newManager(name, metrics.WithMigration())
	default:
		m.CSIMetricsManager.SetDriverName(name)
	}
	m.name = name
}

// markMigrated returns a context whose calls are counted as those for volumes of in-tree plugins.
func markMigrated(ctx context.Context) context.Context {
	return context.WithValue(ctx, connection.AdditionalInfoKey, connection.AdditionalInfo{Migrated: "true"})
}
