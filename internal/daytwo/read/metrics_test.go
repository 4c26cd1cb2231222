package read

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/purser-csi/purser/internal/telemetry"
)

// What the driver serves is read again, and an endpoint that is not a driver's is refused.
func TestAllocations(t *testing.T) {
	registry := prometheus.NewRegistry()
	telemetry.NewVolumes(registry, "csi.purser", func() (map[string]int64, error) { return map[string]int64{"h": 4096}, nil })
	driver := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer driver.Close()
	all, err := Allocations(t.Context(), []string{driver.URL}, time.Minute)
	if err != nil || all["csi.purser"]["h"].Allocated != 4096 {
		t.Errorf("%v, %v", all, err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") }))
	defer other.Close()
	for address, want := range map[string]string{
		other.URL: "has no metric purser_driver_volume_allocated_bytes", other.URL + "/%zz": "expected an address", "here": "expected an address",
	} {
		if _, err := Allocations(t.Context(), []string{address}, time.Minute); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}
