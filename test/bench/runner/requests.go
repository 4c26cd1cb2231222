package runner

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

// calls counts the calls of the scripted driver by the last part of the method.
type calls struct {
	mu   sync.Mutex
	made scrape.Calls
}

func (c *calls) count(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	c.mu.Lock()
	if c.made == nil {
		c.made = scrape.Calls{}
	}
	c.made[path.Base(info.FullMethod)]++
	c.mu.Unlock()
	return next(ctx, in)
}

// Calls returns the calls of the scripted driver so far.
func (r *Run) Calls() scrape.Calls {
	r.calls.mu.Lock()
	defer r.calls.mu.Unlock()
	return maps.Clone(r.calls.made)
}

// Counted is what happened while a function ran.
type Counted struct {
	Requests audit.Tally // of all clients of the API server
	Calls    scrape.Calls
	Spent    Spent // by the programs of a contender, and by the servers
}

// Count counts while a function runs.
func (r *Run) Count(ctx context.Context, one *Running, do func() error) (c Counted, err error) {
	from, err := r.Log.Mark(ctx)
	if err != nil {
		return c, err
	}
	calls := r.Calls()
	spent, err := r.Spent(one.Processes)
	if err == nil {
		err = do()
	}
	if err == nil {
		c.Calls = r.Calls().Since(calls)
		c.Spent, err = r.Spent(one.Processes)
	}
	if err != nil {
		return c, err
	}
	c.Spent = c.Spent.Since(spent)
	to, err := r.Log.Mark(ctx)
	if err == nil {
		c.Requests, err = r.Log.Between(from, to)
	}
	return c, err
}

// quietTime is the time without writes after which a count is complete: events are written late.
const quietTime = time.Second

// Quiet returns the end of the log when no service account has written for a while.
func (r *Run) Quiet(ctx context.Context) (audit.Mark, error) {
	end, err := r.Log.Mark(ctx)
	for err == nil {
		if err := Pause(ctx, quietTime); err != nil {
			return 0, err
		}
		var tally audit.Tally
		begin := end
		if end, err = r.Log.Mark(ctx); err != nil {
			return 0, err
		}
		if tally, err = r.Log.Between(begin, end); err == nil && tally.Where(isWork).All() == 0 {
			return end, nil
		}
	}
	return 0, err
}

// isWork leaves out what the cluster writes for itself, as long as it runs.
func isWork(r audit.Request) bool {
	switch strings.Split(r.Resource, "/")[0] {
	case "persistentvolumes", "persistentvolumeclaims", "events", "pods", "leases", "nodes", "volumeattachments",
		"volumesnapshots", "volumesnapshotcontents":
		return r.IsWrite() && strings.HasPrefix(r.User, "system:serviceaccount:")
	}
	return false
}

// Requests returns the requests of the accounts by verb and resource, for each of n volumes. Watches,
// discovery and leases are left out.
func Requests(tally audit.Tally, n int, accounts ...string) string {
	var b strings.Builder
	conflicts, absent, all := 0, 0, 0
	counts := map[string]int{}
	for _, account := range accounts {
		part := tally.By(User(account)).Where(func(r audit.Request) bool {
			return r.Verb != "watch" && !r.IsDiscovery() && r.Resource != "leases"
		})
		conflicts, absent, all = conflicts+part.Answered(409), absent+part.Answered(404), all+part.All()
		for r, answers := range part {
			counts[r.Verb+" "+r.Resource] += answers.All()
		}
	}
	fmt.Fprintf(&b, "  requests a volume                  %.2f; answered 404: %d, 409: %d\n", float64(all)/float64(n), absent, conflicts)
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "    %-40s %.2f\n", kind, float64(counts[kind])/float64(n))
	}
	return b.String()
}

// Percentile returns that of durations by the nearest rank; 0 for none.
func Percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}

// Short prints a duration with a tenth of a millisecond.
func Short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// Percentiles prints the 50th and the 99th percentile.
func Percentiles(all []time.Duration) string {
	return fmt.Sprintf("p50 %s p99 %s", Short(Percentile(all, 50)), Short(Percentile(all, 99)))
}
