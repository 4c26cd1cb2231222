package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/types"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Allocations reads what drivers say of the space of their volumes, by driver and handle.
func Allocations(
	ctx context.Context, urls []string, timeout time.Duration,
) (map[string]map[string]rules.Allocation, error) {
	all := map[string]map[string]rules.Allocation{}
	for _, address := range urls {
		if err := allocations(ctx, address, timeout, all); err != nil {
			return nil, fmt.Errorf("--driver-metrics=%s: %w", address, err)
		}
	}
	return all, nil
}

func allocations(
	ctx context.Context, address string, timeout time.Duration, into map[string]map[string]rules.Allocation,
) error {
	families, err := scrape(ctx, address, timeout)
	if err != nil {
		return err
	}
	family := families[telemetry.MetricVolumeAllocated.Name]
	if family == nil {
		return fmt.Errorf("it has no metric %s: only a purser driver with loop images and volumes has it",
			telemetry.MetricVolumeAllocated.Name)
	}
	for _, m := range family.GetMetric() {
		labels := labelsOf(m)
		driver := labels["driver"]
		if into[driver] == nil {
			into[driver] = map[string]rules.Allocation{}
		}
		into[driver][labels["volume_id"]] = rules.Allocation{Allocated: int64(m.GetGauge().GetValue())}
	}
	return nil
}

// Statistics reads what node agents say of the volumes of claims. An agent without volumes has none.
func Statistics(
	ctx context.Context, urls []string, timeout time.Duration, now time.Time,
) (map[types.NamespacedName]rules.Statistic, error) {
	all := map[types.NamespacedName]rules.Statistic{}
	for _, address := range urls {
		families, err := scrape(ctx, address, timeout)
		if err != nil {
			return nil, fmt.Errorf("--node-metrics=%s: %w", address, err)
		}
		for name, set := range fieldsOfStatistic {
			for _, m := range families[name].GetMetric() {
				labels := labelsOf(m)
				claim := types.NamespacedName{Namespace: labels["namespace"], Name: labels["persistentvolumeclaim"]}
				s := all[claim]
				s.Time = now
				set(&s, uint64(max(m.GetGauge().GetValue(), 0)))
				all[claim] = s
			}
		}
	}
	return all, nil
}

// fieldsOfStatistic are the metrics of [telemetry.NodeMetrics] about volumes.
var fieldsOfStatistic = map[string]func(s *rules.Statistic, value uint64){
	"kubelet_volume_stats_capacity_bytes":  func(s *rules.Statistic, value uint64) { s.Capacity = &value },
	"kubelet_volume_stats_used_bytes":      func(s *rules.Statistic, value uint64) { s.Used = &value },
	"kubelet_volume_stats_available_bytes": func(s *rules.Statistic, value uint64) { s.Available = &value },
	"kubelet_volume_stats_inodes":          func(s *rules.Statistic, value uint64) { s.Inodes = &value },
	"kubelet_volume_stats_inodes_used":     func(s *rules.Statistic, value uint64) { s.InodesUsed = &value },
}

// scrape returns the metrics of an address.
func scrape(ctx context.Context, address string, timeout time.Duration) (map[string]*dto.MetricFamily, error) {
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("expected an address such as http://127.0.0.1:8080/metrics")
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("its answer cannot be read: %w", err)
	}
	return families, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}
