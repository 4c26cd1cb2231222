package record

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// At returns the objects at a time.
func (r *Record) At(at time.Time) (*inventory.Builder, error) {
	first := r.begin
	if at.Before(first.Truncate(time.Second)) || at.After(r.end.Add(time.Second)) {
		return nil, fmt.Errorf("--at=%s: the record is of %s to %s", at.UTC().Format(time.RFC3339),
			first.UTC().Format(time.RFC3339), r.end.UTC().Format(time.RFC3339))
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	n, _ := slices.BinarySearchFunc(r.index.Changes(), at, func(c life.Change, at time.Time) int {
		if c.At.After(at) {
			return 1
		}
		return -1
	})
	builder := inventory.NewBuilder(at)
	each(r.index.All(), n, builder.Add)
	builder.Complete(r.unread)
	return builder, nil
}

// each calls a function with those objects that exist after the first n changes.
func each(objects life.Selection, n int, f func(client.Object)) {
	objects.Each(n, func(o metav1.Object) {
		f(o.(client.Object)) //nolint:forcetypeassert // the decoder gives no others
	})
}

// Calls returns the calls to drivers and the decisions that the record has.
func (r *Record) Calls() []life.Call { return r.calls }

// History returns the lives that the record has.
func (r *Record) History() *life.History { return r.HistoryTo(r.final()) }

// HistoryTo is [Record.History] with a cluster that the caller has of its end.
func (r *Record) HistoryTo(final *explain.Cluster) *life.History {
	r.lock.Lock()
	defer r.lock.Unlock()
	return life.New(life.Source{
		Index: r.index, Lock: r.lock, Begin: r.begin, States: r.states, Calls: r.calls, Final: final,
		Large: r.index.Len() > r.small,
	})
}

// final returns the cluster at the end.
func (r *Record) final() *explain.Cluster {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.states(r.index.All())(len(r.index.Changes()), r.end)
}

// states returns the clusters of some objects.
func (r *Record) states(objects life.Selection) life.StateFunc {
	return func(n int, now time.Time) *explain.Cluster {
		builder := inventory.NewBuilder(now)
		each(objects, n, builder.AddUnique)
		builder.Complete(r.unread)
		return builder.Cluster()
	}
}
