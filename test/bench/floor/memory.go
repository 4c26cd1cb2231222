package floor

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

// kept is the memory of a contender without work, in bytes.
type kept struct {
	Contender string  `json:"contender"`
	Empty     float64 `json:"empty"`   // resident, in a cluster without volumes
	Full      float64 `json:"full"`    // resident, with -pairs bound claims and volumes
	PerPair   float64 `json:"perPair"` // of the anonymous part, for a claim and its volume
	HeapPair  float64 `json:"heap"`    // of the live heap; 0 for programs that do not show it
	// Heaps is HeapPair by the account of the program.
	Heaps map[string]float64 `json:"heaps,omitempty"`
}

const (
	calm    = 3 * time.Second // a program that uses less than calmUse meanwhile has no work left
	calmUse = 60 * time.Millisecond
	longest = 20 * time.Second // that is waited for it
)

// footprint is the memory of all programs of a contender.
type footprint struct {
	resident, anonymous float64
	live                map[string]float64 // heap by account
}

// memory measures each contender without volumes and with many.
func (b *bench) memory(ctx context.Context) error {
	var all []runner.Contender
	for _, one := range b.Contenders {
		if !isBare(one) {
			all = append(all, one)
		}
	}
	empty := make([]footprint, len(all))
	for i, one := range all {
		var err error
		if empty[i], err = b.footprint(ctx, one); err != nil {
			return fmt.Errorf("memory of %s: %w", one.Name, err)
		}
	}
	fmt.Fprintf(os.Stderr, "making %d bound claims and volumes ...\n", b.sizes.pairs)
	names := make([]string, b.sizes.pairs)
	for i := range names {
		names[i] = fmt.Sprintf("present-%06d", i)
	}
	if err := b.Pairs(ctx, driverName, className, names); err != nil {
		return err
	}
	for i, one := range all {
		full, err := b.footprint(ctx, one)
		if err != nil {
			return fmt.Errorf("memory of %s with %d volumes: %w", one.Name, b.sizes.pairs, err)
		}
		n := float64(b.sizes.pairs)
		k := kept{
			Contender: one.Short, Empty: empty[i].resident, Full: full.resident,
			PerPair: (full.anonymous - empty[i].anonymous) / n, Heaps: map[string]float64{},
		}
		for account, live := range full.live {
			k.Heaps[account] = (live - empty[i].live[account]) / n
			k.HeapPair += k.Heaps[account]
		}
		b.kept = append(b.kept, k)
	}
	return nil
}

// footprint starts a contender, and measures it when its caches are filled.
func (b *bench) footprint(ctx context.Context, one runner.Contender) (f footprint, err error) {
	fmt.Fprintf(os.Stderr, "%s: memory ...\n", one.Name)
	running, err := b.Launch(ctx, one)
	if err != nil {
		return f, err
	}
	defer running.Kill()
	if err := b.calm(ctx, running); err != nil {
		return f, err
	}
	f.live = map[string]float64{}
	for i, p := range running.Processes {
		used, err := runner.UsageOf(p.Pid())
		if err != nil {
			return f, err
		}
		f.resident, f.anonymous = f.resident+float64(used.Now), f.anonymous+float64(used.Anonymous)
		if p.Address == "" {
			continue
		}
		// a profile of the heap is read for the collection of garbage before it
		if _, err := p.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return f, err
		}
		live, err := scrape.Gauges(ctx, p.Address, "go_memstats_heap_alloc_bytes")
		if err != nil {
			return f, err
		}
		f.live[one.Programs[i].Account] = live[0]
	}
	return f, nil
}

// calm returns when the programs have filled their caches and looked at each object.
func (b *bench) calm(ctx context.Context, running *runner.Running) error {
	for began := time.Now(); time.Since(began) < longest; {
		before, err := b.Spent(running.Processes)
		if err != nil {
			return err
		}
		if err := runner.Pause(ctx, calm); err != nil {
			return err
		}
		after, err := b.Spent(running.Processes)
		if err != nil {
			return err
		}
		if after.Since(before).CPU() < calmUse*time.Duration(len(running.Processes)) {
			return nil
		}
	}
	return nil
}
