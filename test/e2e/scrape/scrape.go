package scrape

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// FreeAddress returns an address without a listener. If another process takes it first, listening
// on it fails.
func FreeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// Calls are the numbers of calls to the CSI driver so far, by the last part of the method.
type Calls map[string]int

// Since returns the numbers of calls since before.
func (c Calls) Since(before Calls) Calls {
	more := Calls{}
	for method, n := range c {
		if n > before[method] {
			more[method] = n - before[method]
		}
	}
	return more
}

// CSICalls reads the numbers from the provisioner that serves on the address.
func CSICalls(ctx context.Context, address string) (calls Calls, err error) {
	return calls, read(ctx, address, func(page io.Reader) error {
		calls, err = countCalls(page)
		return err
	})
}

// Gauges reads the values of gauges without labels.
func Gauges(ctx context.Context, address string, names ...string) (values []float64, err error) {
	return values, read(ctx, address, func(page io.Reader) error {
		families, err := parse(page)
		if err != nil {
			return err
		}
		for _, name := range names {
			metrics := families[name].GetMetric()
			if len(metrics) != 1 {
				return fmt.Errorf("metrics: %d values of %s", len(metrics), name)
			}
			values = append(values, metrics[0].GetGauge().GetValue())
		}
		return nil
	})
}

func read(ctx context.Context, address string, use func(page io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("metrics: %s", response.Status)
	}
	return use(response.Body)
}

// operations counts and times calls; its name is upstream's.
const operations = "csi_sidecar_operations_seconds"

func countCalls(metrics io.Reader) (Calls, error) {
	families, err := parse(metrics)
	if err != nil {
		return nil, err
	}
	calls := Calls{}
	for _, m := range families[operations].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "method_name" {
				calls[path.Base(label.GetValue())] += int(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return calls, nil
}

func parse(page io.Reader) (map[string]*dto.MetricFamily, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(page)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return families, nil
}

// Sum returns the sum of the gauges of a name with these labels, and possibly others; 0 for none.
func Sum(ctx context.Context, address, name string, labels map[string]string) (sum float64, err error) {
	return sum, read(ctx, address, func(page io.Reader) error {
		families, err := parse(page)
		if err != nil {
			return err
		}
		for _, m := range families[name].GetMetric() {
			matching := 0
			for _, label := range m.GetLabel() {
				if labels[label.GetName()] == label.GetValue() {
					matching++
				}
			}
			if matching == len(labels) {
				sum += m.GetGauge().GetValue()
			}
		}
		return nil
	})
}
