package sim

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/controllers/journal"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// manyPages are leaders that follow each other when the journal has several pages, which each of
// them adds and takes over one by one.
func manyPages(calm result, x extent) (all []schedule) {
	if len(calm.calls) < 3 {
		return nil // one page has it all
	}
	calm.ops += 6 // pages are announced and made
	for i, s := range slices.Concat(slowRivals(calm, x), crashesWithDeletion(calm, x)) {
		s.pageBytes = []int{pageOfOne, pageOfFew}[i%2]
		all = append(all, s)
	}
	return all
}

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
		for _, s := range some {
			all = append(all, s)
			s.pageBytes = pageOfOne
			all = append(all, s)
		}
	}
	return all
}

// successorsPages makes a journal believe that the first page is its own when it is about to take
// another.
func successorsPages(c *journal.Config) { c.Live = &vainReader{Reader: c.Live, holder: c.Holder} }

type vainReader struct {
	client.Reader
	holder  string
	another bool // than the first page was read last
}

func (r *vainReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, o, opts...)
	page, ok := o.(*coordinationv1.Lease)
	if !ok || err != nil {
		return err
	}
	if r.another && key.Name == journalName {
		page.Spec.HolderIdentity = &r.holder
	}
	r.another = strings.HasPrefix(key.Name, journalName+"-")
	return nil
}
