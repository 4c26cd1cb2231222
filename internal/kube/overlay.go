package kube

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Overlay is the informer cache with this process's own writes laid over it, so that no controller acts
// on a view that is older than its own last write, or than that of another controller in the process. It
// is a client.Reader; [Overlay.Recording] returns the client whose writes it lays over.
//
// Only kinds that are watched ([Overlay.Watch]) are laid over: the watch says when a write can be
// dropped. They must not be of a kind that is deleted with a grace period (pods). Objects that a read
// returns must not be changed where client.UnsafeDisableDeepCopy is given.
type Overlay struct {
	cached client.Reader
	*ownView
}

// ownView has the own writes of a process by kind.
type ownView struct {
	clock clock.PassiveClock

	mu      sync.RWMutex
	kinds   map[reflect.Type]*ownKind // by the struct type of the object
	indexes map[reflect.Type]map[string]client.IndexerFunc
}

// ownKind has this process's writes to the objects of one kind.
type ownKind struct {
	*OwnWrites[client.Object]
	// deleted are objects that this process deleted, until the watch shows that they are being deleted.
	// Without a finalizer they are gone.
	deleted EndedObjects
	// ended are objects whose last finalizer this process removed, until the watch shows that they are
	// gone. The response to that write has the version from before.
	ended EndedObjects
	// forgotten counts what is dropped from these two, before it is dropped.
	forgotten atomic.Uint64
}

// forget drops an object from the set, if the watch has delivered its end.
func (k *ownKind) forget(from *EndedObjects, uid types.UID) {
	if from.Has(uid) {
		k.forgotten.Add(1)
		from.Forget(uid)
	}
}

// NewOverlay returns an overlay without own writes. Without a watched kind it is the cache itself.
func NewOverlay(cached client.Reader, c clock.PassiveClock) *Overlay {
	return &Overlay{cached, &ownView{
		clock: c, kinds: map[reflect.Type]*ownKind{}, indexes: map[reflect.Type]map[string]client.IndexerFunc{},
	}}
}

// Over returns the same own writes, now and later, laid over another view of the cache.
func (o *Overlay) Over(cached client.Reader) *Overlay { return &Overlay{cached, o.ownView} }

// Watch lays this process's writes over the cached objects of these kinds. A kind that is watched
// already is not watched twice.
func (o *Overlay) Watch(ctx context.Context, informers cache.Informers, kinds ...client.Object) error {
	for _, kind := range kinds {
		if !o.add(kind) {
			continue
		}
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
		if err := o.handle(informer); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return nil
}

func (o *Overlay) handle(informer cache.Informer) error {
	if f, ok := informer.(*fan); ok && f.view == o.ownView {
		return f.serveOverlay()
	}
	_, err := informer.AddEventHandler(o.handler())
	return err
}

// Fed lays this process's writes over the objects of these kinds. The caller has event handlers of its own
// and calls [Overlay.Saw] and [Overlay.Gone] from them, after its own state has the object.
func (o *Overlay) Fed(kinds ...client.Object) {
	for _, kind := range kinds {
		o.add(kind)
	}
}

func (o *Overlay) add(kind client.Object) (isNew bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := typeOf(kind)
	if o.kinds[of] != nil {
		return false
	}
	k := &ownKind{OwnWrites: NewOwnWrites[client.Object]()}
	for field, values := range o.indexes[of] {
		k.indexBy(field, values)
	}
	o.kinds[of] = k
	return true
}

// Index makes field indexes known, so that a List by them finds own writes too. The cache needs them as
// well ([AddIndexes]).
func (o *Overlay) Index(indexes ...Index) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, index := range indexes {
		of := typeOf(index.Kind)
		if o.indexes[of] == nil {
			o.indexes[of] = map[string]client.IndexerFunc{}
		}
		o.indexes[of][index.Field] = index.Values
		if k := o.kinds[of]; k != nil {
			k.indexBy(index.Field, index.Values)
		}
	}
}

func typeOf(object client.Object) reflect.Type { return reflect.TypeOf(object).Elem() }

// kind returns the own writes of an object's kind; nil if it is not watched.
func (o *Overlay) kind(of reflect.Type) *ownKind {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.kinds[of]
}

// Wrote lays an object over the cache, as the API server returned it to a write or a live read. The write
// that removes the last finalizer of an object that is being deleted ends it. The caller must not change
// the object afterwards.
func (o *Overlay) Wrote(object client.Object) {
	k := o.kind(typeOf(object))
	if k == nil {
		return
	}
	k.Wrote(object)
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		k.ended.Add(object.GetUID(), o.clock.Now())
	}
}

// Deleted notes that this process deleted an object. Without finalizers in the cache it is gone.
func (o *Overlay) Deleted(object client.Object) {
	if k := o.kind(typeOf(object)); k != nil && object.GetUID() != "" {
		k.deleted.Add(object.GetUID(), o.clock.Now())
	}
}

// Forget drops what is laid over the cached object, if it has the same uid, and reports whether there was
// something.
func (o *Overlay) Forget(object client.Object) bool {
	k := o.kind(typeOf(object))
	return k != nil && k.Forget(object)
}

// IsUnseen reports whether an object is as this process wrote it and the watch cannot have delivered that
// write. If the watch is interrupted meanwhile, it may never deliver that the object was deleted since.
func (o *Overlay) IsUnseen(object client.Object) bool {
	k := o.kind(typeOf(object))
	if k == nil {
		return false
	}
	own, _, ahead := k.own(client.ObjectKeyFromObject(object))
	return ahead && own.GetUID() == object.GetUID()
}

// Saw records an object that the watch has delivered.
func (o *Overlay) Saw(object client.Object) {
	k := o.kind(typeOf(object))
	if k == nil {
		return
	}
	k.Saw(object)
	if object.GetDeletionTimestamp() != nil {
		k.forget(&k.deleted, object.GetUID())
	}
}

// Gone records a deletion that the watch has delivered.
func (o *Overlay) Gone(object client.Object) {
	k := o.kind(typeOf(object))
	if k == nil {
		return
	}
	k.Gone(object)
	k.forget(&k.deleted, object.GetUID())
	k.forget(&k.ended, object.GetUID())
}

func (o *Overlay) handler() toolscache.ResourceEventHandler {
	tell := func(in any, note func(client.Object)) {
		if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = tombstone.Obj
		}
		if object, ok := in.(client.Object); ok {
			note(object)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(in any) { tell(in, o.Saw) },
		UpdateFunc: func(_, in any) { tell(in, o.Saw) },
		DeleteFunc: func(in any) { tell(in, o.Gone) },
	}
}

// Get implements client.Reader. An object that this process deleted is being deleted, or gone, though the
// cache does not show it yet.
func (o *Overlay) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	k := o.kind(typeOf(into))
	if k == nil {
		return o.cached.Get(ctx, key, into, opts...)
	}
	for {
		forgotten := k.forgotten.Load()
		err := o.get(ctx, k, key, into, opts...)
		// What was forgotten after the cache was read may have been about the object that it still had.
		if k.forgotten.Load() == forgotten {
			return err
		}
	}
}

func (o *Overlay) get(
	ctx context.Context, k *ownKind, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	var missing error
	newest, found, err := k.Read(key, func() (client.Object, bool, error) {
		err := o.cached.Get(ctx, key, into, opts...)
		if client.IgnoreNotFound(err) != nil {
			return nil, false, err
		}
		missing = err
		return into, err == nil, nil
	})
	switch {
	case err != nil:
		return err
	case !found:
		return missing
	}
	now, _ := o.ending(k, newest)
	if now == nil {
		return notFound(into, key)
	}
	if now != into {
		copyInto(now, into)
	}
	return nil
}

// copyInto copies a whole object of the same type.
func copyInto(from, into client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}

// List implements client.Reader. Matching own writes that the cache does not show are added, and objects
// that do not match since an own write are left out.
func (o *Overlay) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	k := o.kind(itemType(list))
	if k == nil {
		return o.cached.List(ctx, list, opts...)
	}
	for range mostLists {
		forgotten := k.forgotten.Load()
		err := o.list(ctx, k, list, opts...)
		if err != nil || k.forgotten.Load() == forgotten { // as in Get
			return err
		}
	}
	return fmt.Errorf("objects were deleted during each of %d lists of %T in the cache", mostLists, list)
}

// mostLists bounds the lists of a kind whose objects are deleted all the time.
const mostLists = 10

func (o *Overlay) list(ctx context.Context, k *ownKind, list client.ObjectList, opts ...client.ListOption) error {
	own, err := k.listed(ctx, o.cached, list, opts)
	if err != nil {
		return err
	}
	if len(own) == 0 && k.deleted.isEmpty() && k.ended.isEmpty() {
		return nil
	}
	matches, err := o.matcher(itemType(list), opts)
	if err != nil {
		return err
	}
	items, changed, err := o.laidOver(ctx, k, list, own, matches)
	if err != nil || !changed {
		return err
	}
	return meta.SetList(list, items)
}

// laidOver returns the listed objects as new as this process's writes; changed is false if they are as
// the cache has them.
func (o *Overlay) laidOver(
	ctx context.Context, k *ownKind, list client.ObjectList, own map[client.ObjectKey]client.Object,
	matches func(client.Object) bool,
) (items []runtime.Object, changed bool, err error) {
	add := func(object client.Object) { items = append(items, object) }
	err = meta.EachListItem(list, func(item runtime.Object) error {
		cached, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an object of the API", item)
		}
		key := client.ObjectKeyFromObject(cached)
		newest := cached
		if written, ok := own[key]; ok {
			delete(own, key)
			if isNewerWrite(written, cached) {
				newest, changed = deepCopy(written), true
				if !matches(newest) {
					return nil
				}
			}
		}
		now, touched := o.ending(k, newest)
		if changed = changed || touched; now != nil {
			add(now)
		}
		return nil
	})
	if err != nil {
		return nil, false, err
	}
	for key, written := range own {
		if !matches(written) {
			continue
		}
		now := reflect.New(typeOf(written)).Interface().(client.Object)
		switch err := o.Get(ctx, key, now); {
		case client.IgnoreNotFound(err) != nil:
			return nil, false, err
		case err == nil && matches(now):
			add(now)
			changed = true
		}
	}
	return items, changed, nil
}

// ending returns the object as it is after this process's deletions; nil for gone.
func (o *Overlay) ending(k *ownKind, object client.Object) (now client.Object, changed bool) {
	if k.ended.Has(object.GetUID()) {
		return nil, true
	}
	if object.GetDeletionTimestamp() != nil || !k.deleted.Has(object.GetUID()) {
		return object, false
	}
	if len(object.GetFinalizers()) == 0 {
		return nil, true
	}
	now = deepCopy(object)
	now.SetDeletionTimestamp(new(metav1.NewTime(o.clock.Now())))
	return now, true
}

func deepCopy(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }
