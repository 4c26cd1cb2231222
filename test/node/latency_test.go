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
// how much of it is the driver's: with the agent, and with a real kubelet on the same driver. make
// bench-node runs it; the times depend on the machine.
func TestLatency(t *testing.T) {
	if os.Getenv("BENCH_NODE") == "" {
		t.Skip("BENCH_NODE is not set; run make bench-node")
	}
	t.Run("agent", func(t *testing.T) {
		r := newRig(t)
		r.start()
		m := r.newMeter(40)
		r.requests.reset()
		own := m.run(func(name string) *corev1.Pod { return r.pod("p-"+name, []corev1.Volume{claimed(name)}) })
		r.waitClean()
		t.Logf("requests of the agent for the pods' start and end: %s", r.requests.text())
		if reads := r.requests.reads(); reads > 0 {
			t.Errorf("%d reads", reads)
		}
		if own > 50*time.Millisecond {
			t.Errorf("p50 beyond the driver's time is %s, more than 50ms", own)
		}
	})
	t.Run("kubelet", func(t *testing.T) {
		r := newRig(t)
		r.startKubelet(r.startContainerd())
		m := r.newMeter(20)
		m.run(func(name string) *corev1.Pod { return r.container("p-"+name, []corev1.Volume{claimed(name)}) })
		r.eventually("nothing mounted", func() bool { return len(r.mounts()) == 0 })
	})
}

// meter times the calls to the driver for each volume.
type meter struct {
	*rig
	pods int

	mu           sync.Mutex
	began, ended map[string]time.Time
	took         map[string]time.Duration
}

// newMeter makes a volume for each of so many pods.
func (r *rig) newMeter(pods int) *meter {
	m := &meter{rig: r, pods: pods, began: map[string]time.Time{}, ended: map[string]time.Time{}, took: map[string]time.Duration{}}
	for i := range pods {
		r.volume(fmt.Sprintf("v%d", i))
	}
	r.proxy.setHook(func(_ context.Context, method, volume string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.began[method+volume] = time.Now()
		return nil
	})
	r.proxy.setAfter(func(_ context.Context, method, volume string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if method == "NodeStageVolume" || method == "NodePublishVolume" {
			m.took[volume] += time.Since(m.began[method+volume])
		}
		if method == "NodePublishVolume" {
			m.ended[volume] = time.Now()
		}
		return nil
	})
	return m
}

// run has one pod after the other come and go, and returns the p50 beyond the driver's own time.
func (m *meter) run(create func(name string) *corev1.Pod) time.Duration {
	m.t.Helper()
	var all, own []time.Duration
	for i := range m.pods {
		name := fmt.Sprintf("v%d", i)
		start := time.Now()
		pod := create(name)
		var total time.Duration
		m.eventually("volume of pod "+pod.Name+" published", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			total = m.ended["pv-"+name].Sub(start)
			return total > 0
		})
		m.mu.Lock()
		all, own = append(all, total), append(own, total-m.took["pv-"+name])
		m.mu.Unlock()
		m.remove(pod)
		m.waitGone(pod)
	}
	slices.Sort(all)
	slices.Sort(own)
	last := m.pods - 1
	m.t.Logf("pod created to volume published, %d pods one after the other: p50 %s, p99 %s; beyond the driver's own time: p50 %s, p99 %s",
		m.pods, all[m.pods/2], all[last], own[m.pods/2], own[last])
	return own[m.pods/2]
}
