package telemetry

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// HM-47, HM-48: a driver that reports a new number in each answer makes a bounded number of series.
func TestUnknownStatusesAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := NewVolumeHealth(registry)
	for number := range int32(100) {
		h.Unknown([]int32{number + 10, 10})
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == MetricHealthUnknown.Name {
				series[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	if len(series) != mostNumbers+1 || series["10"] != 101 || series["25"] != 1 || series["other"] != 84 {
		t.Errorf("series: %v", series)
	}
}
