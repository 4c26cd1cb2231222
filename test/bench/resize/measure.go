package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/audited"
)

// measurement is the API server, the driver and what was seen of claims.
type measurement struct {
	*audited.Server
	claims, idle, rounds int
	driver               *driver
	made                 int // claims so far

	mu    sync.Mutex
	grown map[string]time.Time // when a claim was seen with 2Gi
}

// patience is for one contender.
const patience = 5 * time.Minute

// measure has claims grow one after the other, then all at once, and returns expansions in a second.
func (m *measurement) measure(ctx context.Context, one audited.Contender) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := m.observe(ctx); err != nil {
		return 0, err
	}
	running, err := m.Launch(one)
	defer func() {
		for _, p := range running {
			p.Kill()
		}
	}()
	if err != nil {
		return 0, err
	}
	if _, err := m.grow(ctx, 1); err != nil { // it is known to work
		return 0, fmt.Errorf("warm up: %w", err)
	}
	var waits []time.Duration
	for range m.idle {
		took, err := m.grow(ctx, 1)
		if err != nil {
			return 0, err
		}
		waits = append(waits, took...)
	}
	fmt.Printf("  idle, one claim after the other    p50 %s\n", audited.Short(audited.Percentile(waits, 50)))
	return m.burst(ctx)
}

// burst has all claims grow at once, and counts.
func (m *measurement) burst(ctx context.Context) (rate float64, err error) {
	names, err := m.pairs(ctx, m.claims)
	if err != nil {
		return 0, err
	}
	calls := m.driver.calls.Load()
	from, err := m.Log.Mark(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	waits, err := m.growAll(ctx, names)
	if err != nil {
		return 0, err
	}
	rate = float64(m.claims) / time.Since(began).Seconds()
	to, err := m.Log.Mark(ctx)
	if err != nil {
		return 0, err
	}
	tally, err := m.Log.Between(from, to)
	if err != nil {
		return 0, err
	}
	fmt.Printf("  %d claims at once                 %.0f/s p50 %s p99 %s\n", m.claims, rate,
		audited.Short(audited.Percentile(waits, 50)), audited.Short(audited.Percentile(waits, 99)))
	fmt.Printf("  ControllerExpandVolume a claim     %.2f\n", float64(m.driver.calls.Load()-calls)/float64(m.claims))
	fmt.Print(audited.Requests(tally, m.claims, account))
	return rate, nil
}

// observe follows the claims until ctx ends.
func (m *measurement) observe(ctx context.Context) error {
	m.mu.Lock()
	m.grown = map[string]time.Time{}
	m.mu.Unlock()
	seen, err := cache.New(m.Admin, cache.Options{Scheme: m.Scheme})
	if err != nil {
		return err
	}
	informer, err := seen.GetInformer(ctx, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, object any) { m.saw(object.(*corev1.PersistentVolumeClaim)) },
	})
	if err != nil {
		return err
	}
	go func() { _ = seen.Start(ctx) }() // ends with ctx
	seen.WaitForCacheSync(ctx)
	return nil
}

// saw notes that an expansion is over.
func (m *measurement) saw(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Capacity.Storage().Value() < twoGibibytes || len(claim.Status.Conditions) > 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.grown[claim.Name]; !known {
		m.grown[claim.Name] = time.Now()
	}
}

const twoGibibytes = 2 << 30

func (m *measurement) pairs(ctx context.Context, n int) (names []string, err error) {
	for range n {
		m.made++
		names = append(names, fmt.Sprintf("claim-%05d", m.made))
	}
	return names, m.Pairs(ctx, driverName, class, names)
}

func (m *measurement) grow(ctx context.Context, n int) ([]time.Duration, error) {
	names, err := m.pairs(ctx, n)
	if err != nil {
		return nil, err
	}
	return m.growAll(ctx, names)
}

// growAll asks for 2Gi for each claim, and returns how long each took.
func (m *measurement) growAll(ctx context.Context, names []string) (took []time.Duration, err error) {
	var mu sync.Mutex
	asked := map[string]time.Time{}
	err = audited.Each(ctx, names, func(ctx context.Context, name string) error {
		mu.Lock()
		asked[name] = time.Now()
		mu.Unlock()
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = audited.Namespace, name
		edit := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		return m.API.Patch(ctx, claim, client.RawPatch(types.MergePatchType, edit))
	})
	if err != nil {
		return nil, err
	}
	for {
		took = took[:0]
		m.mu.Lock()
		for _, name := range names {
			if at, done := m.grown[name]; done {
				took = append(took, at.Sub(asked[name]))
			}
		}
		m.mu.Unlock()
		if len(took) == len(names) {
			return took, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d claims have grown: %w", len(took), len(names), ctx.Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}
