package floor

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bare is a client that watches nothing, decides nothing and makes only the writes of the floor, one
// after the other for each item.
type bare struct {
	api  client.Client
	form form

	mu    sync.Mutex
	nodes map[string]*nodeList
	times []time.Duration // of the writes of single operations
	timed bool            // such an operation is under way
}

func newBare(api client.Client, f form) *bare {
	return &bare{api: client.WithFieldOwner(api, "bare"), form: f, nodes: map[string]*nodeList{}}
}

// all makes writes until one fails.
func (b *bare) all(writes ...func() error) error {
	for _, write := range writes {
		began := time.Now()
		if err := write(); err != nil {
			return err
		}
		b.mu.Lock()
		if b.timed {
			b.times = append(b.times, time.Since(began))
		}
		b.mu.Unlock()
	}
	return nil
}

// time records the times of the writes from now on, or no longer.
func (b *bare) time(timed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timed = timed
}

// alone leaves out writes that only other processes need.
func (b *bare) alone(writes ...func() error) error {
	if b.form == together {
		return nil
	}
	return b.all(writes...)
}

func (b *bare) create(ctx context.Context, o client.Object) func() error {
	return func() error { return b.api.Create(ctx, o) }
}

func (b *bare) update(ctx context.Context, o client.Object) func() error {
	return func() error { return b.api.Update(ctx, o) }
}

func (b *bare) status(ctx context.Context, o client.Object) func() error {
	return func() error { return b.api.Status().Update(ctx, o) }
}

func (b *bare) delete(ctx context.Context, o client.Object) func() error {
	return func() error { return b.api.Delete(ctx, o) }
}

// patch changes parts of the metadata.
func (b *bare) patch(ctx context.Context, o client.Object, metadata map[string]any) func() error {
	return func() error { return b.api.Patch(ctx, o, mergePatch(map[string]any{"metadata": metadata})) }
}

// annotate sets an annotation; nil removes it.
func (b *bare) annotate(ctx context.Context, o client.Object, key string, value any) func() error {
	return b.patch(ctx, o, map[string]any{"annotations": map[string]any{key: value}})
}

// finalize leaves these finalizers on an object. The API server forgets the writers of the fields of
// an object without any: it is deleted in the same write, which takes half the time then.
func (b *bare) finalize(ctx context.Context, o client.Object, finalizers ...string) func() error {
	metadata := map[string]any{"finalizers": finalizers}
	if len(finalizers) == 0 {
		metadata["managedFields"] = []any{map[string]any{}}
	}
	return b.patch(ctx, o, metadata)
}

func mergePatch(content map[string]any) client.Patch {
	raw, err := json.Marshal(content)
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.MergePatchType, raw)
}
