package read

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"

	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// What the driver serves is read again, and an endpoint that is not a driver's is refused.
func TestAllocations(t *testing.T) {
	registry := prometheus.NewRegistry()
	telemetry.NewVolumes(registry, "csi.purser", func() (map[string]int64, error) {
		return map[string]int64{"h": 4096}, nil
	})
	driver := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer driver.Close()
	all, err := Allocations(t.Context(), []string{driver.URL}, time.Minute)
	if err != nil || all["csi.purser"]["h"].Allocated != 4096 {
		t.Errorf("%v, %v", all, err)
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "up 1")
	}))
	defer other.Close()
	for address, want := range map[string]string{
		other.URL:          "has no metric purser_driver_volume_allocated_bytes",
		other.URL + "/%zz": "expected an address", "here": "expected an address",
	} {
		if _, err := Allocations(t.Context(), []string{address}, time.Minute); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// What a node agent serves is read again, each number where it belongs.
func TestStatistics(t *testing.T) {
	claim := types.NamespacedName{Namespace: "shop", Name: "data"}
	registry := prometheus.NewRegistry()
	telemetry.NewVolumeStats(registry, func() map[types.NamespacedName]mounting.Stats {
		return map[types.NamespacedName]mounting.Stats{claim: {
			Capacity: 100, Available: 30, Used: 60, Inodes: 10, InodesAvailable: 3, InodesUsed: 7,
		}}
	})
	agent := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer agent.Close()
	now := time.Unix(1, 0)
	all, err := Statistics(t.Context(), []string{agent.URL}, time.Minute, now)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v, %v", all, err)
	}
	s := all[claim]
	got := []uint64{*s.Capacity, *s.Available, *s.Used, *s.Inodes, *s.InodesUsed}
	if !slices.Equal(got, []uint64{100, 30, 60, 10, 7}) || !s.Time.Equal(now) {
		t.Errorf("%v at %s", got, s.Time)
	}
	if _, err := Statistics(t.Context(), []string{"here"}, time.Minute, now); err == nil ||
		!strings.Contains(err.Error(), "--node-metrics=here: expected an address") {
		t.Error(err)
	}
}
