package sim

import (
	"google.golang.org/grpc/codes"

	"github.com/purser-csi/purser/test/sim/csidriver"
)

// lostJournals are administrators who delete the journal under a process, which makes it again.
// Only a crash before that would lose volumes.
func lostJournals(calm result, _ extent) (all []schedule) {
	for n := 1; n <= calm.ops; n++ {
		s := schedule{dropJournalAt: n}
		deleted, ended := s, s
		deleted.deleteAt, ended.endAt = n, n
		some := []schedule{s, deleted, ended}
		for _, call := range calm.calls {
			for _, effect := range []csidriver.Effect{csidriver.None, csidriver.Done} {
				unclear := s
				unclear.csiAt, unclear.csi = call, csidriver.Fault{Code: codes.Unavailable, Effect: effect}
				gone, upgraded := unclear, unclear
				gone.deleteAt, upgraded.deleteAt, upgraded.endAt = call, call, n+1
				some = append(some, unclear, gone, upgraded)
			}
		}
		all = append(all, some...)
	}
	return all
}
