package sim

import (
	"slices"
	"testing"
	"time"
)

// H-1: after a kill, a volume is deleted without waiting for the timeout of a call that is known to
// have ended: one CreateVolume was sent, and its PersistentVolume exists.
func TestDeletionAfterAKillIsNotDelayed(t *testing.T) {
	i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == "reclaim policy Delete" })
	work := workloads[i]
	calm := run(t, work, schedule{}, mutant{})
	if len(calm.calls) != 2 {
		t.Fatalf("%d calls without faults, want CreateVolume and DeleteVolume", len(calm.calls))
	}
	most, checked := calm.took+briefly+5*time.Second, 0
	for n := calm.calls[0] + 1; n <= calm.ops; n++ {
		for _, where := range []position{before, lost, after} {
			s := schedule{crashes: []crash{{n, where}}, downFor: briefly}
			r := run(t, work, s, mutant{})
			if len(r.calls) != len(calm.calls) {
				continue // the process was killed before the PersistentVolume was written, or during DeleteVolume
			}
			if checked++; r.took > most {
				t.Errorf("%s: took %s, and %s without a kill", s, r.took, calm.took)
			}
		}
	}
	if checked == 0 {
		t.Error("no kill left the two calls alone")
	}
}
