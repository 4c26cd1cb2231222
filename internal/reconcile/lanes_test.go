package reconcile_test

import (
	"context"
	"slices"
	"testing"

	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/purser-csi/purser/internal/reconcile"
)

// road is a controller with lanes whose runs end when the test says so.
type road struct {
	t        *testing.T
	lanes    *reconcile.Lanes[string, string]
	lane     map[string]string // by key
	ends     map[string]chan struct{}
	ended    map[string]chan struct{}
	began    chan string
	enqueued []string
}

func newRoad(t *testing.T, lane map[string]string) *road {
	r := &road{
		t: t, lane: lane, ends: map[string]chan struct{}{}, ended: map[string]chan struct{}{}, began: make(chan string, 10),
	}
	for key := range lane {
		r.ends[key], r.ended[key] = make(chan struct{}), make(chan struct{})
	}
	r.lanes = reconcile.NewLanes(reconcile.LanesConfig[string, string]{
		Reconciler: crreconcile.TypedFunc[string](func(_ context.Context, key string) (crreconcile.Result, error) {
			r.began <- key
			<-r.ends[key]
			return crreconcile.Result{}, nil
		}),
		Lane: func(_ context.Context, key string) string { return r.lane[key] },
		Most: 1, Enqueue: func(key string) { r.enqueued = append(r.enqueued, key) },
	})
	return r
}

// runs begins a run, which is to get a place.
func (r *road) runs(key string) {
	r.t.Helper()
	go func() {
		_, _ = r.lanes.Reconcile(r.t.Context(), key)
		close(r.ended[key])
	}()
	if got := <-r.began; got != key {
		r.t.Fatalf("%s runs, want %s", got, key)
	}
}

// waits begins a run that is to get no place.
func (r *road) waits(key string) {
	r.t.Helper()
	if _, err := r.lanes.Reconcile(r.t.Context(), key); err != nil || len(r.began) > 0 {
		r.t.Fatalf("%s has a place, %v", key, err)
	}
}

func (r *road) end(key string) {
	close(r.ends[key])
	<-r.ended[key]
}

func (r *road) want(keys ...string) {
	r.t.Helper()
	if !slices.Equal(r.enqueued, keys) {
		r.t.Errorf("enqueued again are %q, want %q", r.enqueued, keys)
	}
	r.enqueued = nil
}

func TestALaneLetsTheOthersPass(t *testing.T) {
	r := newRoad(t, map[string]string{"a": "slow", "b": "slow", "c": "fast"})
	r.runs("a")
	r.waits("b")
	r.runs("c")
	r.end("c")
	r.want()
	r.end("a")
	r.want("b")
	r.runs("b")
	r.end("b")
	r.want()
}

// A key that is enqueued for one reason after another waits once: else it would take the place that
// becomes free from a key that has none.
func TestAKeyWaitsOnce(t *testing.T) {
	r := newRoad(t, map[string]string{"a": "x", "b": "x", "c": "x"})
	r.runs("a")
	r.waits("b")
	r.waits("b")
	r.waits("c")
	r.end("a")
	r.want("b")
	r.runs("b")
	r.end("b")
	r.want("c")
}

// The key that was given the free place has changed its lane meanwhile: the next one has the place.
func TestAPlaceThatIsNotTakenGoesToTheNext(t *testing.T) {
	for _, busy := range []bool{false, true} {
		r := newRoad(t, map[string]string{"a": "x", "b": "x", "c": "x", "d": "y"})
		r.runs("a")
		if busy {
			r.runs("d")
		}
		r.waits("b")
		r.waits("c")
		r.end("a")
		r.want("b")
		r.lane["b"] = "y"
		if busy {
			r.waits("b")
		} else {
			r.runs("b")
		}
		r.want("c")
	}
}

// A key that got a place while it waited, because another event enqueued it, is not enqueued again.
func TestAKeyThatHasAPlaceWaitsNoMore(t *testing.T) {
	r := newRoad(t, map[string]string{"a": "x", "b": "x", "c": "x"})
	r.runs("a")
	r.waits("b")
	r.waits("c")
	r.lane["b"] = "y"
	r.runs("b")
	r.end("a")
	r.want("c")
	r.end("b")
	r.want()
}

// BenchmarkLanes is the cost of a key that finds no place beside 30,000 others.
func BenchmarkLanes(b *testing.B) {
	lanes := reconcile.NewLanes(reconcile.LanesConfig[int, string]{
		Reconciler: crreconcile.TypedFunc[int](func(context.Context, int) (crreconcile.Result, error) {
			return crreconcile.Result{}, nil
		}),
		Lane: func(context.Context, int) string { return "x" }, Most: 0, Enqueue: func(int) {},
	})
	const others = 30_000
	for key := range others {
		_, _ = lanes.Reconcile(b.Context(), key)
	}
	for i := 0; b.Loop(); i++ {
		_, _ = lanes.Reconcile(b.Context(), i%others)
	}
}
