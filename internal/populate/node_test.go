package populate

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// VP-7, VP-H5: the volume is made for the selected node, and if none can be made for it, for the next one that
// the scheduler selects.
func TestNodeIsGivenBack(t *testing.T) {
	w := newWorld(t)
	class := &storagev1.StorageClass{}
	w.must(w.api.Get(t.Context(), client.ObjectKey{Name: "fast"}, class))
	w.must(w.api.Delete(t.Context(), class))
	class.ResourceVersion, class.VolumeBindingMode = "", new(storagev1.VolumeBindingWaitForFirstConsumer)
	w.must(w.api.Create(t.Context(), class))
	w.nodes, w.full, w.writer = []string{"n1", "n2"}, "n1", &killed{Client: w.api}
	w.run()
	if err := w.outcome(); err != nil {
		t.Error(err)
	}
	w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(w.claim), w.claim))
	if got := w.claim.Annotations["volume.kubernetes.io/selected-node"]; got != "n2" ||
		w.claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim is %s on node %q", w.claim.Status.Phase, got)
	}
	if !slices.Contains(w.events, "PopulatorNodeReturned") {
		t.Errorf("events %q", w.events)
	}
}

// VP-13, VP-14: what a pod says of its progress is in an event and in the metrics.
func TestProgress(t *testing.T) {
	w := newWorld(t)
	w.failures, w.writer = 1, &killed{Client: w.api}
	w.progress = func(_ context.Context, address string) (populate.Progress, bool) {
		return populate.Progress{Done: 60, Total: 100}, address == "192.0.2.1:7"
	}
	w.run()
	if !slices.Contains(w.events, "PopulatorProgress") {
		t.Errorf("events %q", w.events)
	}
	want := `# HELP purser_populated_bytes_total Bytes that the pods of a populator have written, as far as they said so.
# TYPE purser_populated_bytes_total counter
purser_populated_bytes_total 120
# HELP volume_populator_operations_in_flight Claims that a populator's pod writes the data of, or whose pod failed and is kept for its log.
# TYPE volume_populator_operations_in_flight gauge
volume_populator_operations_in_flight 0
`
	if err := testutil.GatherAndCompare(
		w.metrics, strings.NewReader(want), "purser_populated_bytes_total", "volume_populator_operations_in_flight",
	); err != nil {
		t.Error(err)
	}
	if got, err := testutil.GatherAndCount(w.metrics, "volume_populator_operation_seconds"); err != nil || got != 2 {
		t.Errorf("%d results, %v", got, err)
	}
}
