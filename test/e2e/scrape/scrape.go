package scrape

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// FreeAddress is one that nobody listens on. Another process can be quicker to take it, which the listener then says.
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

// Since is how many there are more than before.
func (c Calls) Since(before Calls) Calls {
	more := Calls{}
	for method, n := range c {
		if n > before[method] {
			more[method] = n - before[method]
		}
	}
	return more
}

// CSICalls asks the provisioner that serves on the address.
func CSICalls(ctx context.Context, address string) (Calls, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("metrics: %s", response.Status)
	}
	return countCalls(response.Body)
}

// operations counts and times calls; its name is upstream's.
const operations = "csi_sidecar_operations_seconds"

func countCalls(metrics io.Reader) (Calls, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
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
