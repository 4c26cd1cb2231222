package journal

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/intent"
)

// H-1: a write of a page that leaves its text, as when the page names one more, says nothing of a
// request that was settled in memory alone: that stands in the text as old as it is, and whoever
// takes the page over then must know.
func TestAWriteWithoutTheTextVouchesForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		leaveTwo(t, a, intent.MostUnattended+time.Minute)
		refused := &atomic.Bool{}
		next := start(t, a, "next", func(c *Config) { c.PageBytes, c.FormerEnded, c.Writer = 1, true, refusing{c.Writer, refused} })
		record(t, next.Journal, 2)
		if err := next.Settle(t.Context(), "uid-1"); err != nil {
			t.Fatal(err)
		}
		refused.Store(true)        // the write that is without uid-1
		record(t, next.Journal, 3) // which comes onto another page
		next.die()
		last := start(t, a, "last")
		if e, ok := last.Pending("uid-1"); !ok || !e.IsStale() || last.Len() != 3 {
			t.Errorf("settled in memory alone: on record %t, old %t, %d requests", ok, e.IsStale(), last.Len())
		}
		last.end(t)
	})
}

// refusing is a writer that refuses one update.
type refusing struct {
	client.Writer
	next *atomic.Bool
}

func (r refusing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	if r.next.Swap(false) {
		return errors.New("not now")
	}
	return r.Writer.Update(ctx, o, opts...)
}
