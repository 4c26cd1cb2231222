package csirpc

import (
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-lib-utils/metrics"
)

// namedMetrics lets the name of the driver be set while calls are in flight; the library reads it
// without a lock. Calls before GetPluginInfo have driver_name="unknown-driver", and all calls after
// it have the driver's name (ME-4).
type namedMetrics struct {
	metrics.CSIMetricsManager
	name *sync.RWMutex
}

// RecordMetrics implements metrics.CSIMetricsManager.
func (m namedMetrics) RecordMetrics(operation string, err error, took time.Duration) {
	m.name.RLock()
	defer m.name.RUnlock()
	m.CSIMetricsManager.RecordMetrics(operation, err, took)
}

// WithLabelValues implements metrics.CSIMetricsManager.
func (m namedMetrics) WithLabelValues(labels map[string]string) (metrics.CSIMetricsManager, error) {
	labelled, err := m.CSIMetricsManager.WithLabelValues(labels)
	if err != nil {
		return nil, err
	}
	return namedMetrics{labelled, m.name}, nil
}

// SetDriverName implements metrics.CSIMetricsManager.
func (m namedMetrics) SetDriverName(name string) {
	m.name.Lock()
	defer m.name.Unlock()
	m.CSIMetricsManager.SetDriverName(name)
}
