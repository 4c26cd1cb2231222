package reconcile

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	_ "sigs.k8s.io/controller-runtime/pkg/controller" // measures queues
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// An idle queue runs no goroutine twice a second.
func TestTickersAreCalm(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Unix(0, 0))
	ticker := calm{fake}.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for _, step := range []struct {
		after time.Duration
		ticks bool
	}{{lookEvery - time.Second, false}, {time.Second, true}, {time.Second, false}} {
		fake.Step(step.after)
		ticked := false
		select {
		case <-ticker.C():
			ticked = true
		default:
		}
		if ticked != step.ticks {
			t.Errorf("%s later: a tick is %v, want %v", step.after, ticked, step.ticks)
		}
	}
}

// The metrics are those of controller-runtime.
func TestQueueIsMeasured(t *testing.T) {
	q := NewQueue("measured", workqueue.DefaultTypedControllerRateLimiter[string]())
	defer q.ShutDown()
	q.Add("key")
	key, _ := q.Get()
	q.Done(key)
	for _, name := range []string{"workqueue_adds_total", "workqueue_depth", "workqueue_queue_duration_seconds", "workqueue_work_duration_seconds"} {
		if !measured(t, metrics.Registry, name, "measured") {
			t.Errorf("%s does not tell of the queue", name)
		}
	}
}

// measured reports whether a metric has a line for a queue.
func measured(t *testing.T, in prometheus.Gatherer, metric, queue string) bool {
	t.Helper()
	families, err := in.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, line := range family.GetMetric() {
			for _, label := range line.GetLabel() {
				if family.GetName() == metric && label.GetName() == "name" && label.GetValue() == queue {
					return true
				}
			}
		}
	}
	return false
}
