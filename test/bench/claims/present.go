package claims

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

// present is what a role costs that watches volumes and claims which are bound, and has nothing to
// do.
type present struct {
	role      string
	none, all footprint
}

// footprint is the memory of one process, in bytes.
type footprint struct {
	runner.Memory         // before the collection of garbage that follows was asked for
	inUse, live   float64 // the heap after it: its pages, and what is in them
	profile       []byte  // of the heap
}

// The goals. That of resident memory is the provisioner's alone.
const (
	residentGoal = 70 << 20
	pairGoal     = 2.5 * (1 << 10)
)

// calmTime is for what follows the first list: a look at each volume.
const calmTime = 10 * time.Second

const roleProvisioner = "csi-provisioner"

// measurePresent looks at each role, before the pairs are there and after.
func (c *contest) measurePresent(ctx context.Context, pairs int) (all []present, err error) {
	all = []present{{role: roleProvisioner}, {role: "controllers"}, {role: "plane"}}
	for i := range all {
		if all[i].none, err = c.footprint(ctx, all[i].role); err != nil {
			return nil, fmt.Errorf("%s without volumes: %w", all[i].role, err)
		}
	}
	if err := c.makePairs(ctx, pairs); err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].all, err = c.footprint(ctx, all[i].role); err != nil {
			return nil, fmt.Errorf("%s with %d volumes: %w", all[i].role, pairs, err)
		}
	}
	return all, nil
}

// footprint is of a role that starts now.
func (c *contest) footprint(ctx context.Context, role string) (f footprint, err error) {
	s, err := c.Start(ctx, role, runner.Program{
		Name: "purser", Args: []string{role, "--enable-pprof"}, Socket: role != "controllers", HTTP: true, Ready: true,
	})
	if err != nil {
		return f, err
	}
	defer s.Kill()
	if err := runner.Pause(ctx, calmTime); err != nil {
		return f, err
	}
	used, err := runner.UsageOf(s.Pid())
	if err != nil {
		return f, err
	}
	f.Memory = used.Memory
	// Asking for a profile of the heap is the way to have garbage collected.
	if f.profile, err = s.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
		return f, err
	}
	heap, err := scrape.Gauges(ctx, s.Address, "go_memstats_heap_inuse_bytes", "go_memstats_heap_alloc_bytes")
	if err != nil {
		return f, err
	}
	f.inUse, f.live = heap[0], heap[1]
	return f, nil
}

func (p present) perPair(pairs int) float64 { return (p.all.live - p.none.live) / float64(pairs) }

func reportPresent(all []present, pairs int) string {
	var out strings.Builder
	for _, p := range all {
		fmt.Fprintf(&out, "%-34s%15s%15s\n", p.role+", idle, MB", "without", fmt.Sprintf("%d bound", pairs))
		for _, line := range []struct {
			name      string
			none, all float64
		}{
			{"resident memory", float64(p.none.Now), float64(p.all.Now)},
			{"  of it anonymous", float64(p.none.Anonymous), float64(p.all.Anonymous)},
			{"  at most", float64(p.none.Most), float64(p.all.Most)},
			{"heap, pages in use", p.none.inUse, p.all.inUse},
			{"heap, live", p.none.live, p.all.live},
		} {
			fmt.Fprintf(&out, "  %-32s%15.1f%15.1f\n", line.name, line.none/(1<<20), line.all/(1<<20))
		}
	}
	fmt.Fprintf(&out, "\n%-52s%9s%9s%9s\n", "Goals", "here", "goal", "")
	for _, p := range all {
		if p.role == roleProvisioner {
			name := p.role + ": resident MB with " + fmt.Sprint(pairs)
			here := float64(p.all.Now) / (1 << 20)
			fmt.Fprintln(&out, goal{name: name, here: here, limit: residentGoal >> 20, format: "%.1f"})
		}
		name := p.role + ": heap for a volume and its claim"
		fmt.Fprintln(&out, goal{name: name, here: p.perPair(pairs), limit: pairGoal, format: "%.0f"})
	}
	return out.String()
}

// saveHeaps writes the profiles of the heap with and without the volumes, where that was asked for.
func saveHeaps(folder string, all []present) error {
	if folder == "" {
		return nil
	}
	for _, p := range all {
		for name, profile := range map[string][]byte{p.role: p.all.profile, p.role + "-empty": p.none.profile} {
			if err := os.WriteFile(filepath.Join(folder, "heap-"+name), profile, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}
