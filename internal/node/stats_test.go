package node

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// 5.11: one call for each claim in a round, kubelet's names and labels, and a driver that hangs
// holds up no other and gets no second question.
func TestVolumeStats(t *testing.T) {
	const other = "other.test"
	pod, claim, pv := one("a")
	second, _, _ := one("a") // a second pod with the claim
	second.Name, second.UID = "second", "uid-second"
	pod2, claim2, pv2 := one("b")
	pv2.Spec.CSI.Driver = other
	pod3, claim3, pv3 := one("c")
	pv3.Spec.CSI.Driver = other
	info2 := csiDriver(false)
	info2.Name = other
	a, _ := newAgent(t, theNode(), csiDriver(false), info2, pod, second, claim, pv, pod2, claim2, pv2, pod3, claim3, pv3)
	registry := prometheus.NewRegistry()
	a.Called = telemetry.NewCSIOperations(registry)
	telemetry.NewVolumeStats(registry, a.VolumeStats)
	works, _ := register(t, a, driverName)
	hangs, _ := register(t, a, other)
	works.mu.Lock()
	works.stats = &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{{Unit: csi.VolumeUsage_BYTES, Total: 10, Available: 7, Used: 3}}}
	works.mu.Unlock()
	run(t, a, keyOf("a"))
	run(t, a, mounting.Key{Driver: other, Handle: "h-b"})
	run(t, a, mounting.Key{Driver: other, Handle: "h-c"})
	a.Timeout = 2 * time.Second // both rounds begin before it, on a slow machine
	released := make(chan struct{})
	hangs.set(func(ctx context.Context, method string) error {
		if method != "NodeGetVolumeStats" {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	works.set(func(_ context.Context, method string) error {
		if method == "NodeGetVolumeStats" {
			defer close(released)
		}
		return nil
	})
	var asking sync.WaitGroup
	a.stats.round(t.Context(), &asking)
	<-released
	a.stats.mu.Lock()
	busy := a.stats.asking[other]
	a.stats.mu.Unlock()
	if !busy {
		t.Error("the driver that hangs was not asked, or has answered")
	}
	works.set(nil)
	a.stats.round(t.Context(), &asking) // the driver that hangs is not asked again
	asking.Wait()
	calls := func(d *driver) (n int) {
		for _, call := range d.seen() {
			if strings.HasPrefix(call, "NodeGetVolumeStats") {
				n++
			}
		}
		return n
	}
	// The second round may come while the first still notes its answer.
	if got := calls(works); got < 1 || got > 2 || calls(hangs) != 1 {
		t.Errorf("%d calls of the driver that works, %d of the one that hangs", got, calls(hangs))
	}
	want := `
# HELP kubelet_volume_stats_available_bytes Number of available bytes in the volume.
# TYPE kubelet_volume_stats_available_bytes gauge
kubelet_volume_stats_available_bytes{namespace="ns",persistentvolumeclaim="a"} 7
# HELP kubelet_volume_stats_capacity_bytes Capacity in bytes of the volume.
# TYPE kubelet_volume_stats_capacity_bytes gauge
kubelet_volume_stats_capacity_bytes{namespace="ns",persistentvolumeclaim="a"} 10
# HELP kubelet_volume_stats_inodes Maximum number of inodes in the volume.
# TYPE kubelet_volume_stats_inodes gauge
kubelet_volume_stats_inodes{namespace="ns",persistentvolumeclaim="a"} 0
# HELP kubelet_volume_stats_used_bytes Number of used bytes in the volume.
# TYPE kubelet_volume_stats_used_bytes gauge
kubelet_volume_stats_used_bytes{namespace="ns",persistentvolumeclaim="a"} 3
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kubelet_volume_stats_available_bytes",
		"kubelet_volume_stats_capacity_bytes", "kubelet_volume_stats_inodes", "kubelet_volume_stats_used_bytes"); err != nil {
		t.Error(err)
	}
	for _, labels := range []string{"d.test NodeStageVolume OK", "d.test NodeGetVolumeStats OK", "other.test NodeGetVolumeStats DeadlineExceeded"} {
		if got := callLabels(t, registry); !slices.Contains(got, labels) {
			t.Errorf("csi_operations_seconds has no %q: %q", labels, got)
		}
	}
	// An error takes the values away, as with a kubelet.
	works.set(func(context.Context, string) error { return status.Error(codes.NotFound, "gone") })
	a.stats.round(t.Context(), &asking)
	asking.Wait()
	if got := a.VolumeStats(); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// callLabels returns driver, method and code of the calls that are counted.
func callLabels(t *testing.T, registry prometheus.Gatherer) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		if family.GetName() != "csi_operations_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["migrated"] != "false" || !strings.HasPrefix(labels["method_name"], "/csi.v1.Node/") {
				t.Errorf("labels %v", labels)
			}
			all = append(all, labels["driver_name"]+" "+strings.TrimPrefix(labels["method_name"], "/csi.v1.Node/")+" "+labels["grpc_status_code"])
		}
	}
	return all
}

// A driver without the capability, and a volume that is not published, are not asked for.
func TestVolumeStatsAskedFor(t *testing.T) {
	pod, claim, pv := one("a")
	for row, tc := range map[string]struct {
		stats bool
		state mounting.State
		want  int
	}{
		"published":                 {true, mounting.Certain, 1},
		"not published yet":         {true, mounting.Uncertain, 0},
		"the driver has no numbers": {false, mounting.Certain, 0},
	} {
		a, _ := newAgent(t, pod, claim, pv)
		a.drivers.byName[driverName] = &registered{Driver: mounting.Driver{Name: driverName, Stats: tc.stats}}
		a.records.change(keyOf("a"), func(r mounting.Record) mounting.Record {
			return r.WithPublication(mounting.Publication{ID: idOf("a"), State: tc.state})
		})
		got, err := a.stats.published(t.Context())
		if err != nil || len(got[driverName]) != tc.want {
			t.Errorf("%s: %v, %v", row, got, err)
		}
		if use, ok := got[driverName][types.NamespacedName{Namespace: "ns", Name: "a"}]; ok && use.ID != idOf("a") {
			t.Errorf("%s: %+v", row, use.ID)
		}
	}
}

// A volume that is unpublished during a round is left out of the rest of the round.
func TestVolumeStatsDuringUnpublish(t *testing.T) {
	pod, claim, pv := one("a")
	a, _ := newAgent(t, theNode(), csiDriver(false), pod, claim, pv)
	d, _ := register(t, a, driverName)
	run(t, a, keyOf("a"))
	uses, err := a.stats.published(t.Context())
	if err != nil || len(uses[driverName]) != 1 {
		t.Fatalf("%v, %v", uses, err)
	}
	a.records.change(keyOf("a"), func(r mounting.Record) mounting.Record {
		return r.WithPublication(mounting.Publication{ID: idOf("a"), State: mounting.Uncertain})
	})
	a.stats.ask(t.Context(), driverName, uses[driverName])
	for _, call := range d.seen() {
		if strings.HasPrefix(call, "NodeGetVolumeStats") {
			t.Error(call)
		}
	}
}
