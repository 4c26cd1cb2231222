package view

import (
	"context"
	"errors"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// View implements cache.Cache for one process.
type View struct {
	// Transform is what the cache of the process keeps of each object; nil for that of the
	// provisioner. Set it before the first use.
	Transform toolscache.TransformFunc
	// TrimsPods has Transform trim pods as well; otherwise they are trimmed as for a provisioner.
	TrimsPods bool
	// Offset is by how much later than others this view has each change, so that two do not act at
	// the same instant.
	Offset time.Duration

	server  *apiserver.Server
	changed chan struct{}

	mu     sync.Mutex
	kinds  []*kind // in the order in which they were asked for
	faults []Fault
	broken bool
	healed bool
}

var _ cache.Cache = (*View)(nil)

// kind is the informer of one kind.
type kind struct {
	view     *View
	of       client.Object
	order    int
	fault    Fault
	store    map[types.NamespacedName]client.Object
	position int // in the history
	indexes  map[string]client.IndexerFunc
	handlers []toolscache.ResourceEventHandler
}

var errNotServed = errors.New("the simulated cache does not serve this")

// New returns a view that follows the server once it is started.
func New(server *apiserver.Server, faults ...Fault) *View {
	return &View{server: server, changed: make(chan struct{}, 1), faults: faults}
}

// Break enables the faults; before, the watches work.
func (v *View) Break() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.broken = true
}

// Heal disables the faults, and delivers all missed events.
func (v *View) Heal() {
	v.mu.Lock()
	v.healed = true
	v.mu.Unlock()
	v.rouse()
}

func (v *View) rouse() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// kindFor makes the informer on first use, with the first list in it. The caller holds mu.
func (v *View) kindFor(o client.Object) *kind {
	for _, k := range v.kinds {
		if reflect.TypeOf(k.of) == reflect.TypeOf(o) {
			return k
		}
	}
	k := &kind{
		view:    v,
		of:      o,
		order:   len(v.kinds),
		store:   map[types.NamespacedName]client.Object{},
		indexes: map[string]client.IndexerFunc{},
	}
	for _, f := range v.faults {
		if reflect.TypeOf(f.Kind) == reflect.TypeOf(o) {
			k.fault = f
		}
	}
	history := v.server.History(o, 0)
	if v.broken && !v.healed {
		history = history[:max(len(history)-k.fault.Late, 0)]
	}
	for _, e := range history {
		k.keep(e)
	}
	v.kinds = append(v.kinds, k)
	return k
}

// keep moves the store by one event.
func (k *kind) keep(e apiserver.Event) {
	k.position++
	key := client.ObjectKeyFromObject(e.Object)
	if e.Type == watch.Deleted {
		delete(k.store, key)
		return
	}
	k.store[key] = k.view.trimmed(e.Object)
}

func (v *View) trimmed(o client.Object) client.Object {
	trim := v.Transform
	if trim == nil {
		trim = kube.Trim
	}
	if _, ok := o.(*corev1.Pod); ok && !v.TrimsPods {
		trim = kube.TrimPod
	}
	out, err := trim(o.DeepCopyObject())
	if err != nil {
		panic(err) // it never is one
	}
	return out.(client.Object)
}

// Start follows the server until ctx ends.
func (v *View) Start(ctx context.Context) error {
	v.server.Listen(v.changed)
	v.rouse()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-v.changed:
		}
		if !pause(ctx, Delay+v.Offset) {
			return nil
		}
		for i := 0; i < v.count(); i++ {
			v.deliver(ctx, i)
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (v *View) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.kinds)
}

// deliver delivers the events of a kind, except those that a fault holds back.
func (v *View) deliver(ctx context.Context, i int) {
	v.mu.Lock()
	k := v.kinds[i]
	due, skip := k.due()
	v.mu.Unlock()
	if len(due) == 0 || !pause(ctx, perKind*time.Duration(1+k.order)) {
		return
	}
	if skip {
		k.relist(due)
		return
	}
	for _, e := range due {
		k.tell(e)
	}
}

// due returns the events to deliver now. skip says to deliver only their difference to the store.
func (k *kind) due() (due []apiserver.Event, skip bool) {
	due = k.view.server.History(k.of, k.position)
	switch {
	case !k.view.broken, k.view.healed:
		return due, k.view.healed && k.fault.Relist
	case k.fault.Frozen:
		return nil, false
	}
	return due[:max(len(due)-k.fault.Lag, 0)], false
}

func (k *kind) tell(e apiserver.Event) {
	k.view.mu.Lock()
	before := k.store[client.ObjectKeyFromObject(e.Object)]
	k.keep(e)
	handlers := slices.Clone(k.handlers)
	k.view.mu.Unlock()
	now := k.view.trimmed(e.Object)
	for _, h := range handlers {
		switch {
		case e.Type == watch.Deleted:
			h.OnDelete(now)
		case before == nil:
			h.OnAdd(now, false)
		default:
			h.OnUpdate(before, now)
		}
	}
}

// relist replaces the store with the state after the events. Objects that were created and deleted
// meanwhile have no event, deletions have no last state, and an object that was created again looks
// like an update. As in client-go, deletions are delivered before events that show the new
// resourceVersion.
func (k *kind) relist(events []apiserver.Event) {
	k.view.mu.Lock()
	before := k.snapshot()
	for _, e := range events {
		k.keep(e)
	}
	after := k.snapshot()
	handlers := slices.Clone(k.handlers)
	k.fault.Relist = false
	k.view.mu.Unlock()
	for key, was := range inOrder(before) {
		if after[key] == nil {
			for _, h := range handlers {
				h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: key.String(), Obj: was})
			}
		}
	}
	for key, is := range inOrder(after) {
		for _, h := range handlers {
			if was := before[key]; was != nil {
				h.OnUpdate(was, is)
			} else {
				h.OnAdd(is, false)
			}
		}
	}
}

func (k *kind) snapshot() map[types.NamespacedName]client.Object {
	return maps.Clone(k.store)
}

func inOrder(store map[types.NamespacedName]client.Object) iter.Seq2[types.NamespacedName, client.Object] {
	keys := slices.SortedFunc(
		maps.Keys(store),
		func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) },
	)
	return func(yield func(types.NamespacedName, client.Object) bool) {
		for _, key := range keys {
			if !yield(key, store[key]) {
				return
			}
		}
	}
}

// Get implements client.Reader.
func (v *View) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	have := v.kindFor(into).store[key]
	if have == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).Elem().Name()}, key.Name)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(have.DeepCopyObject()).Elem())
	return nil
}

// List implements client.Reader: by namespace and by one index.
func (v *View) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.kindOfList(list)
	if k == nil {
		return errNotServed
	}
	var items []runtime.Object
	for _, o := range inOrder(k.store) {
		matches, err := k.matches(o, options)
		if err != nil {
			return err
		}
		if matches {
			items = append(items, o.DeepCopyObject())
		}
	}
	return meta.SetList(list, items)
}

func (v *View) kindOfList(list client.ObjectList) *kind {
	name := strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List")
	for _, k := range v.kinds {
		if reflect.TypeOf(k.of).Elem().Name() == name {
			return k
		}
	}
	return nil
}

func (k *kind) matches(o client.Object, options *client.ListOptions) (bool, error) {
	if options.Namespace != "" && o.GetNamespace() != options.Namespace {
		return false, nil
	}
	if options.FieldSelector == nil {
		return true, nil
	}
	for _, r := range options.FieldSelector.Requirements() {
		index := k.indexes[r.Field]
		if index == nil {
			return false, errNotServed
		}
		if !slices.Contains(index(o), r.Value) {
			return false, nil
		}
	}
	return true, nil
}
