package runner

import (
	"context"
	"fmt"
	"sync"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// NewCache starts a cache on connections of its own, so that the API server does not wait for its
// watches. It ends with ctx.
func NewCache(ctx context.Context, config *rest.Config, scheme *k8sruntime.Scheme) (ctrlcache.Cache, error) {
	watches, err := kube.WatchClient(config)
	if err != nil {
		return nil, err
	}
	c, err := ctrlcache.New(config, ctrlcache.Options{HTTPClient: watches, Scheme: scheme})
	if err != nil {
		return nil, err
	}
	go func() { _ = c.Start(ctx) }() // ends with ctx
	c.WaitForCacheSync(ctx)
	return c, nil
}

// Observe calls seen with each object of a kind that is added or updated from now on, and gone with the
// last state of each that is deleted, also across a watch that ends. Either may be nil. It returns when
// the cache is synced.
func Observe[T client.Object](
	ctx context.Context, from ctrlcache.Cache, kind T, seen, gone func(T),
) (end func(), err error) {
	informer, err := from.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	call := func(do func(T), object any) {
		if unknown, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if typed, ok := object.(T); ok && do != nil {
			do(typed)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(seen, object) },
		UpdateFunc: func(_, object any) { call(seen, object) },
		DeleteFunc: func(object any) { call(gone, object) },
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	// it fails only for an unknown handler
	return func() { _ = informer.RemoveEventHandler(registration) }, nil
}

// Times are the times at which something was first seen, by name. The zero value is empty.
type Times struct {
	mu    sync.Mutex
	times map[string]time.Time
}

// Add records the present time, unless the name has one.
func (t *Times) Add(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.times == nil {
		t.times = map[string]time.Time{}
	}
	if _, again := t.times[name]; !again {
		t.times[name] = time.Now()
	}
}

// Remove removes the time of a name.
func (t *Times) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.times, name)
}

// At returns the time of a name.
func (t *Times) At(name string) (at time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok = t.times[name]
	return at, ok
}

// Len returns the number of names.
func (t *Times) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.times)
}

// After returns the time of a name since that of another name in begun; false unless both have one.
func (t *Times) After(name string, begun *Times, from string) (time.Duration, bool) {
	at, is := t.At(name)
	start, was := begun.At(from)
	return at.Sub(start), is && was
}

// Since returns the time of each name since its time in begun.
func (t *Times) Since(begun *Times) (all []time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, at := range t.times {
		if from, ok := begun.At(name); ok {
			all = append(all, at.Sub(from))
		}
	}
	return all
}

// Await waits until there are as many names.
func (t *Times) Await(ctx context.Context, want int) error {
	return Until(ctx, want, func(context.Context) (int, error) { return t.Len(), nil })
}

// Until polls until the count is reached. The exact times are those of the watches.
func Until(ctx context.Context, want int, count func(context.Context) (int, error)) error {
	n := 0
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (done bool, err error) {
		n, err = count(ctx)
		return n >= want, err
	})
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("%d of %d: %w", n, want, err)
	}
	return nil
}

// Pause lets time pass.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
