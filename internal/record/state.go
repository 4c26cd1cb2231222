package record

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

// order puts the changes into the order in which the API server made them, which has a watch for
// each kind and delivers some later than others. A change was made at the latest when a later one
// was seen. Events may be kept in a store of their own, with versions that cannot be compared; they
// stay where they were seen.
func (r *Record) order() {
	type step struct {
		life.Change
		version uint64
	}
	steps := make([]step, len(r.changes))
	var timed []*step
	for i, c := range r.changes {
		steps[i].Change = c
		version, err := strconv.ParseUint(c.Object.GetResourceVersion(), 10, 64)
		switch {
		case c.Existed: // before all others
		case c.Kind == explain.Event || err != nil:
			steps[i].version = math.MaxUint64
		default:
			steps[i].version = version
			timed = append(timed, &steps[i])
		}
	}
	slices.SortStableFunc(timed, func(a, b *step) int { return cmp.Compare(a.version, b.version) })
	for i := len(timed) - 2; i >= 0; i-- {
		if next := timed[i+1].At; timed[i].At.After(next) {
			timed[i].At = next
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.version, b.version))
	})
	for i, s := range steps {
		r.changes[i] = s.Change
		v := version{i + 1, s.Object.(client.Object)} //nolint:forcetypeassert // the decoder gives no others
		if s.Deleted {
			v.object = nil
		}
		k := key{string(s.Kind), s.Object.GetNamespace(), s.Object.GetName()}
		r.objects[k].versions = append(r.objects[k].versions, v)
	}
}

// At returns the objects at a time.
func (r *Record) At(at time.Time) (*inventory.Builder, error) {
	first := r.begin
	if at.Before(first.Truncate(time.Second)) || at.After(r.end.Add(time.Second)) {
		return nil, fmt.Errorf("--at=%s: the record is of %s to %s", at.UTC().Format(time.RFC3339),
			first.UTC().Format(time.RFC3339), r.end.UTC().Format(time.RFC3339))
	}
	n := 0
	for n < len(r.changes) && !r.changes[n].At.After(at) {
		n++
	}
	builder := inventory.NewBuilder(at)
	r.each(r.keys(), n, builder.Add)
	builder.Complete(r.unread)
	return builder, nil
}

// each calls a function with those of some objects that exist after the first n changes.
func (r *Record) each(keys []key, n int, f func(client.Object)) {
	for _, k := range keys {
		versions := r.objects[k].versions
		i, _ := slices.BinarySearchFunc(versions, n, func(v version, n int) int {
			if v.after > n {
				return 1
			}
			return -1
		})
		if i > 0 && versions[i-1].object != nil {
			f(versions[i-1].object)
		}
	}
}

// keys are those of all objects in the order of an API server.
func (r *Record) keys() []key {
	if len(r.sorted) == len(r.objects) {
		return r.sorted
	}
	all := make([]key, 0, len(r.objects))
	for k := range r.objects {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b key) int {
		return strings.Compare(a.kind+"\x00"+a.namespace+"\x00"+a.name, b.kind+"\x00"+b.namespace+"\x00"+b.name)
	})
	r.sorted = all
	return all
}

// Calls returns the calls to drivers and the decisions that the record has.
func (r *Record) Calls() []life.Call { return r.calls }

// History returns the lives that the record has.
func (r *Record) History() *life.History {
	source := life.Source{
		Changes: r.changes,
		Begin:   r.begin,
		State:   r.stateOf(r.keys()),
		Calls:   r.calls,
	}
	source.Final = source.State(len(r.changes), r.end)
	if len(r.objects) > r.small {
		source.Narrow = r.narrow
	}
	return life.New(source)
}

// stateOf returns the states of some objects.
func (r *Record) stateOf(keys []key) life.StateFunc {
	return func(n int, now time.Time) *explain.Cluster {
		builder := inventory.NewBuilder(now)
		r.each(keys, n, builder.AddUnique)
		builder.Complete(r.unread)
		return builder.Cluster()
	}
}

// narrow returns the states of the objects of which the first or the last version holds.
func (r *Record) narrow(holds func(metav1.Object) bool) life.StateFunc {
	var keys []key
	for _, k := range r.keys() {
		versions := r.objects[k].versions
		for i, v := range versions {
			if (i == 0 || i == len(versions)-1) && v.object != nil && holds(v.object) {
				keys = append(keys, k)
				break
			}
		}
	}
	return r.stateOf(keys)
}
