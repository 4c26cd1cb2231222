package node

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestLatency measures the time from a pod's creation on the node until its volume is published, and
// how much of it is the driver's. make bench-node runs it; the times depend on the machine.
func TestLatency(t *testing.T) {
	if os.Getenv("BENCH_NODE") == "" {
		t.Skip("BENCH_NODE is not set; run make bench-node")
	}
	r := newRig(t)
	r.start()
	const pods = 40
	for i := range pods {
		r.volume(fmt.Sprintf("v%d", i))
	}
	var mu sync.Mutex
	began, took, ended := map[string]time.Time{}, map[string]time.Duration{}, map[string]time.Time{}
	r.proxy.setHook(func(_ context.Context, method, volume string) error {
		mu.Lock()
		defer mu.Unlock()
		began[method+volume] = time.Now()
		return nil
	})
	r.proxy.setAfter(func(_ context.Context, method, volume string) error {
		mu.Lock()
		defer mu.Unlock()
		took[volume] += time.Since(began[method+volume])
		if method == "NodePublishVolume" {
			ended[volume] = time.Now()
		}
		return nil
	})
	r.requests.reset()
	var all, own []time.Duration
	for i := range pods {
		name := fmt.Sprintf("v%d", i)
		start := time.Now()
		pod := r.pod("p-"+name, []corev1.Volume{claimed(name)})
		r.waitPublished(pod)
		mu.Lock()
		total := ended["pv-"+name].Sub(start)
		all, own = append(all, total), append(own, total-took["pv-"+name])
		mu.Unlock()
		r.remove(pod)
		r.waitGone(pod)
	}
	r.waitClean()
	slices.Sort(all)
	slices.Sort(own)
	t.Logf("pod created to volume published, %d pods one after the other: p50 %s, p99 %s; beyond the driver's own time: p50 %s, p99 %s",
		pods, all[pods/2], all[pods-1], own[pods/2], own[pods-1])
	t.Logf("requests of the agent for a pod's start and end: %s", r.requests.text())
	if reads := r.requests.reads(); reads > 0 {
		t.Errorf("%d reads", reads)
	}
	if own[pods/2] > 50*time.Millisecond {
		t.Errorf("p50 beyond the driver's time is %s, more than 50ms", own[pods/2])
	}
}
