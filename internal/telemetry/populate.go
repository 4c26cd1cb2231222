package telemetry

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of populators; the first two are upstream's (VP-14).
var (
	MetricPopulatorSeconds = Metric{
		"volume_populator_operation_seconds", "histogram",
		[]string{"result"},
		"Time from the creation of a populator's pod to its end. The results are succeeded and failed.",
	}
	MetricPopulatorInFlight = Metric{
		"volume_populator_operations_in_flight", "gauge", nil,
		"Claims that a populator's pod writes the data of, or whose pod failed and is kept for its log.",
	}
	MetricPopulatedBytes = Metric{
		"purser_populated_bytes_total", "counter", nil,
		"Bytes that the pods of a populator have written, as far as they said so.",
	}
)

// Populating are the metrics of a populator.
type Populating struct {
	took  *prometheus.HistogramVec
	bytes prometheus.Counter

	mu      sync.Mutex
	written map[string]int64 // by the uid of a claim with a pod
}

// NewPopulating registers the metrics of a populator.
func NewPopulating(registry prometheus.Registerer) *Populating {
	p := &Populating{written: map[string]int64{}}
	p.took = registered(registry, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: MetricPopulatorSeconds.Name, Help: MetricPopulatorSeconds.Help,
		Buckets: []float64{1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600},
	}, MetricPopulatorSeconds.Labels))
	p.bytes = NewCounter(registry, MetricPopulatedBytes).WithLabelValues()
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: MetricPopulatorInFlight.Name, Help: MetricPopulatorInFlight.Help,
	}, p.inFlight))
	return p
}

func (p *Populating) inFlight() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(len(p.written))
}

// Observe records whether a claim has a pod and how many bytes the pod has written. A nil receiver records
// nothing.
func (p *Populating) Observe(claim string, hasPod bool, written int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !hasPod {
		delete(p.written, claim)
		return
	}
	if more := written - p.written[claim]; more > 0 {
		p.bytes.Add(float64(more))
	}
	p.written[claim] = max(written, p.written[claim])
}

// Ended records the end of a pod. A nil receiver records nothing.
func (p *Populating) Ended(result string, took time.Duration) {
	if p != nil {
		p.took.WithLabelValues(result).Observe(max(took, 0).Seconds())
	}
}
