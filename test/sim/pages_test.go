package sim

import (
	"context"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/controllers/journal"
)

// manyPages are leaders that follow each other when the journal has several pages, which each of them adds and takes over one by one.
func manyPages(calm result, x extent) (all []schedule) {
	if len(calm.calls) < 3 {
		return nil // one page has it all
	}
	calm.ops += 6 // pages are announced and made
	for _, s := range slices.Concat(slowRivals(calm, x), crashesWithDeletion(calm, x)) {
		s.apart = true
		all = append(all, s)
	}
	return all
}

// successorsPages makes a journal believe that the first page is its own when it is about to take another.
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
