package read

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

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
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("expected an address such as http://127.0.0.1:8080/metrics")
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", answer.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(io.LimitReader(answer.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("its answer cannot be read: %w", err)
	}
	family := families[telemetry.MetricVolumeAllocated.Name]
	if family == nil {
		return fmt.Errorf("it has no metric %s: only a purser driver with loop images and volumes has it",
			telemetry.MetricVolumeAllocated.Name)
	}
	for _, m := range family.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		driver := labels["driver"]
		if into[driver] == nil {
			into[driver] = map[string]rules.Allocation{}
		}
		into[driver][labels["volume_id"]] = rules.Allocation{Allocated: int64(m.GetGauge().GetValue())}
	}
	return nil
}
