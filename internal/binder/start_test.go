package binder

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
)

// What is bound when a process starts is not looked at, however the lists of claims and
// volumes come in.
func TestStartAmongBoundPairs(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		first := w.start()
		for i := range 50 {
			w.create(liveVolume(fmt.Sprint("v", i), "a"), liveClaim(fmt.Sprint("c", i), "a"))
		}
		w.create(liveClaim("waits", "a"))
		first.stop()
		second := w.start()
		if n := decisions(t, second); n == 0 || n > 2 {
			t.Errorf("%d decisions, and one claim waits", n)
		}
	})
}

// What is there when a process starts is looked at, a reference without a name included.
func TestStartBesideAnEmptyReference(t *testing.T) {
	inWorld(t, func(w *testCluster) {
		v := liveVolume("v", "a")
		v.Spec.ClaimRef = &corev1.ObjectReference{}
		w.create(v)
		w.start()
		w.expect("v Available  by name")
	})
}

// decisions are how many a process has taken.
func decisions(t *testing.T, p *process) (n int) {
	t.Helper()
	metrics := make(chan prometheus.Metric, 100)
	p.Decided.Collect(metrics)
	close(metrics)
	for m := range metrics {
		var counted dto.Metric
		if err := m.Write(&counted); err != nil {
			t.Fatal(err)
		}
		n += int(counted.GetCounter().GetValue())
	}
	return n
}
