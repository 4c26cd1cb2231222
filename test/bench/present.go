package main

import (
	"context"
	"fmt"
	"time"

	"github.com/purser-csi/purser/test/e2e/scrape"
)

// present is what a provisioner costs that watches volumes and claims which are bound, and has nothing to do.
type present struct {
	pairs     int
	none, all footprint
}

// footprint is the memory of one provisioner, in bytes.
type footprint struct {
	memory              // before the collection of garbage that follows was asked for
	inUse, live float64 // the heap after it: its pages, and what is in them
	profile     []byte  // of the heap
}

// The goals.
const (
	residentGoal = 70 << 20
	pairGoal     = 2.5 * (1 << 10)
)

// calmTime is for what follows the first list: a look at each volume.
const calmTime = 10 * time.Second

func measurePresent(ctx context.Context, r *rig, l load, pairs int) (p present, err error) {
	p.pairs = pairs
	if p.none, err = r.footprint(ctx); err != nil {
		return p, fmt.Errorf("without volumes: %w", err)
	}
	if err := l.present(ctx, pairs); err != nil {
		return p, err
	}
	if p.all, err = r.footprint(ctx); err != nil {
		return p, fmt.Errorf("with %d volumes: %w", pairs, err)
	}
	return p, nil
}

// footprint is of a provisioner that starts now.
func (r *rig) footprint(ctx context.Context) (f footprint, err error) {
	s, err := r.provision(ctx, "--enable-pprof")
	if err != nil {
		return f, err
	}
	defer s.Kill()
	select {
	case <-ctx.Done():
		return f, ctx.Err()
	case <-time.After(calmTime):
	}
	if f.memory, err = memoryOf(s.Pid()); err != nil {
		return f, err
	}
	// Asking for a profile of the heap is the way to have garbage collected.
	if f.profile, err = s.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return f, err
	}
	heap, err := scrape.Gauges(ctx, s.address, "go_memstats_heap_inuse_bytes", "go_memstats_heap_alloc_bytes")
	if err != nil {
		return f, err
	}
	f.inUse, f.live = heap[0], heap[1]
	return f, nil
}

func (p present) perPair() float64 { return (p.all.live - p.none.live) / float64(p.pairs) }

func (p present) report() string {
	return fmt.Sprintf("%-34s%15s%15s\n", "A provisioner that idles, MB", "without", fmt.Sprintf("%d bound", p.pairs)) +
		row("resident memory", p.none.now, p.all.now) +
		row("  of it anonymous", p.none.anonymous, p.all.anonymous) +
		row("  at most", p.none.most, p.all.most) +
		row("heap, pages in use", int64(p.none.inUse), int64(p.all.inUse)) +
		row("heap, live", int64(p.none.live), int64(p.all.live)) +
		fmt.Sprintf("\nresident memory with %d volumes and claims: %.1f MB (goal at most %d MB)\n", p.pairs, megabytes(p.all.now), residentGoal>>20) +
		fmt.Sprintf("heap for a volume and its claim: %.0f bytes (goal at most %.0f)\n", p.perPair(), pairGoal)
}

func row(name string, without, with int64) string {
	return fmt.Sprintf("%-34s%15.1f%15.1f\n", name, megabytes(without), megabytes(with))
}

func megabytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
