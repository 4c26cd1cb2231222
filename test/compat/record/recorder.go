package record

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Change is one watch event.
type Change struct {
	At     int64 // the resource version
	Kind   Kind
	Gone   bool
	Seen   time.Time                  // when the watch delivered it
	Object *unstructured.Unstructured // of a deletion: the last state. It must not be changed.
}

// Key is an object's place.
type Key struct{ Kind, Namespace, Name string }

// Recorder stores all changes. It is safe for concurrent use.
type Recorder struct {
	api dynamic.Interface

	mu     sync.Mutex
	now    map[Key]Change
	scenes map[string]*scene
	probe  probe
}

// scene has the changes of one scenario.
type scene struct {
	changes []Change
	touched time.Time     // time of the last change that is not a repetition of an event
	changed chan struct{} // closed and made anew at every change
	emitted map[string]bool
}

// New returns a recorder that has not begun.
func New(api dynamic.Interface) *Recorder {
	return &Recorder{
		api: api, now: map[Key]Change{}, scenes: map[string]*scene{},
		probe: probe{changed: make(chan struct{}), wanted: make(chan struct{}, 1)},
	}
}

// Start lists and watches until ctx ends.
func (r *Recorder) Start(ctx context.Context) error {
	for _, k := range Kinds() {
		if err := r.follow(ctx, k); err != nil {
			return fmt.Errorf("watch %s: %w", k.Resource.Resource, err)
		}
	}
	return nil
}

// follow watches from now on, since no scenario has started yet. A broken watch is resumed at its
// last resourceVersion, so that no event is missed.
func (r *Recorder) follow(ctx context.Context, k Kind) error {
	list, err := r.api.Resource(k.Resource).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return r.api.Resource(k.Resource).Watch(ctx, options)
		},
	}
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), source)
	if err != nil {
		return err
	}
	go func() {
		for e := range events.ResultChan() {
			r.note(k, e.Type, e.Object)
		}
	}()
	return nil
}

func (r *Recorder) note(k Kind, what watch.EventType, object runtime.Object) {
	o, ok := object.(*unstructured.Unstructured)
	if !ok || what == watch.Bookmark || what == watch.Error {
		return
	}
	at, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return // not of an API server on etcd
	}
	o.SetManagedFields(nil)
	change := Change{At: at, Kind: k, Gone: what == watch.Deleted, Seen: time.Now(), Object: o}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := Key{k.Name, o.GetNamespace(), o.GetName()}
	if r.now[key] = change; change.Gone {
		delete(r.now, key)
	}
	s := r.scene(scenarioOf(k, o))
	s.changes = append(s.changes, change)
	if k != Events || s.news(o) {
		s.touched = time.Now()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// news reports whether an event is new, and not a repetition.
func (s *scene) news(event *unstructured.Unstructured) bool {
	kind, _, _ := unstructured.NestedString(event.Object, "involvedObject", "kind")
	name, _, _ := unstructured.NestedString(event.Object, "involvedObject", "name")
	reason, _, _ := unstructured.NestedString(event.Object, "reason")
	message, _, _ := unstructured.NestedString(event.Object, "message")
	key := kind + "\x00" + name + "\x00" + reason + "\x00" + message
	known := s.emitted[key]
	s.emitted[key] = true
	return !known
}

// scene returns what is known of a scenario. The caller holds mu.
func (r *Recorder) scene(name string) *scene {
	s := r.scenes[name]
	if s == nil {
		s = &scene{changed: make(chan struct{}), emitted: map[string]bool{}}
		r.scenes[name] = s
	}
	return s
}

// Get returns the last state of an object. It must not be changed.
func (r *Recorder) Get(k Kind, namespace, name string) (*unstructured.Unstructured, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change, found := r.now[Key{k.Name, namespace, name}]
	return change.Object, found
}

// Objects are the objects of a scenario that are there, without the events.
func (r *Recorder) Objects(scenario string) (all []Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.now {
		if c.Kind != Events && scenarioOf(c.Kind, c.Object) == scenario {
			all = append(all, c)
		}
	}
	return all
}

// History is everything that happened to a scenario, in order.
func (r *Recorder) History(scenario string) []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	history := slices.Clone(r.scene(scenario).changes)
	slices.SortStableFunc(history, func(a, b Change) int { return cmp.Compare(a.At, b.At) })
	return history
}

// Seen returns the last state of an object of a scenario, even when it is gone.
func (r *Recorder) Seen(k Kind, scenario, namespace, name string) (*unstructured.Unstructured, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.scene(scenario).changes) {
		if c.Kind == k && c.Object.GetName() == name && c.Object.GetNamespace() == namespace {
			return c.Object, true
		}
	}
	return nil, false
}

// Changed returns a channel that is closed at the scenario's next change.
func (r *Recorder) Changed(scenario string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.scene(scenario).changed
}

// Called records a call to the scripted driver for a scenario, which then is not quiet.
func (r *Recorder) Called(scenario string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.scene(scenario)
	s.touched = time.Now()
	close(s.changed)
	s.changed = make(chan struct{})
}

// Touch marks a scenario as not quiet, since a change is about to follow.
func (r *Recorder) Touch(scenario string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scene(scenario).touched = time.Now()
}
