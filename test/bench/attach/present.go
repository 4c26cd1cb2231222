package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/bench/usage"
)

const (
	settle = 20 * time.Second // for the first list, and a look at each volume
	watch  = time.Minute      // over which the processor time of an idle combination is taken
)

// present attaches volumes, and has each combination start beside them: what it costs to have them
// there, with nothing to do.
func (c *contest) present(ctx context.Context) error {
	all := c.combinations()
	ours, err := c.Launch(all[0].Contender)
	if err != nil {
		return err
	}
	volumes, err := c.volumes(ctx, "here-", c.count.present)
	if err == nil {
		err = c.start(ctx, volumes)
	}
	if err == nil {
		_, err = c.observer.untilAttached(ctx, volumes)
	}
	for _, p := range ours {
		p.Kill()
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d VolumeAttachments on %d nodes, nothing to do\n", len(volumes), len(c.nodes))
	for _, one := range all {
		if !strings.Contains(one.Name, c.only) || one.volumes > 0 { // the limits of requests change nothing here
			continue
		}
		if missing := c.Missing(one.Contender); missing != "" {
			fmt.Fprintf(os.Stderr, "%s is left out: there is no %s\n", one.Name, missing)
			continue
		}
		if err := c.idleBeside(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	return nil
}

// idleBeside prints the memory and the idle processor time of one combination.
func (c *contest) idleBeside(ctx context.Context, one combination) error {
	running, err := c.Launch(one.Contender)
	defer func() {
		for _, p := range running {
			p.Kill()
		}
	}()
	if err != nil {
		return err
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	c.running = running
	before, err := c.spent()
	if err != nil {
		return err
	}
	if err := pause(ctx, watch); err != nil {
		return err
	}
	after, err := c.spent()
	if err != nil {
		return err
	}
	var parts []string
	var resident int64
	for i, p := range running {
		m, err := usage.MemoryOf(p.Pid())
		if err != nil {
			return err
		}
		resident += m.Now
		parts = append(parts, fmt.Sprintf("%s %d MB", one.Programs[i].Account, m.Now>>20))
	}
	spent := after.since(before)
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / watch.Seconds() }
	fmt.Printf("  %-36s memory %4d MB (%s)   idle processor %.2f %%, API server %.2f %%\n", one.Name, resident>>20,
		strings.Join(parts, ", "), percent(spent.programs), percent(spent.apiServer))
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
