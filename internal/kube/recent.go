package kube

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/objects"
)

// OwnWrites remembers what this process wrote until the watch has caught up, so that a controller
// never acts on a view older than its own last write. Without it, every operation on the storage
// side happens 1.4 to 1.6 times.
//
// A write is forgotten when the watch shows that very object as new as that or newer, or its end.
// What it shows of other objects counts only for an object that the cache does not have: a watch is
// ordered, so one that shows newer things has shown that object's end. It does not count for an
// object that the cache has. After a broken watch a new list comes object by object, and what comes
// first may be newer than a write to one that the cache still has from before.
type OwnWrites[T client.Object] struct {
	mu      sync.Mutex
	entries map[client.ObjectKey]T
	shown   shown
	seen    string // the newest resource version that came through the watch; empty before the first
	swept   string // what seen was at the last sweep; empty before the first
	events  int    // in order, since the last sweep
}

// NewOwnWrites returns an empty memory.
func NewOwnWrites[T client.Object]() *OwnWrites[T] {
	return &OwnWrites[T]{entries: map[client.ObjectKey]T{}, shown: shown{latest: map[client.ObjectKey]sight{}}}
}

// Wrote remembers the object as the API server returned it, unless the watch was faster.
func (r *OwnWrites[T]) Wrote(object T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key, version := client.ObjectKeyFromObject(object), object.GetResourceVersion()
	if last, ok := r.shown.latest[key]; ok && !objects.IsNewer(version, last.version) {
		return
	}
	if own, ok := r.entries[key]; !ok || objects.IsNewer(version, own.GetResourceVersion()) {
		r.entries[key] = object
	}
}

// Forget drops what was written to this very object, as if the watch had caught up, and reports
// whether there was anything.
func (r *OwnWrites[T]) Forget(object T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	own, ok := r.entries[key]
	if ok = ok && own.GetUID() == object.GetUID(); ok {
		delete(r.entries, key)
	}
	return ok
}

// Read is the newer of the remembered object and the one that read finds in the cache. The memory
// is asked first: an entry that is dropped while the cache is read was dropped because the cache
// has it, or something newer, by then. A nil memory remembers nothing.
func (r *OwnWrites[T]) Read(key client.ObjectKey, read func() (cached T, found bool, err error)) (T, bool, error) {
	if r == nil {
		return read()
	}
	own, remembered, ahead := r.own(key)
	cached, found, err := read()
	if err != nil || !remembered || !found && !ahead ||
		found && objects.IsNewer(cached.GetResourceVersion(), own.GetResourceVersion()) {
		return cached, found, err
	}
	return own, true, nil
}

// Saw notes an object that came through the watch. It is for those who have a handler of their own,
// and must not be told before their own view has the object.
func (r *OwnWrites[T]) Saw(object T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.saw(object)
	if own, ok := r.entries[key]; ok && !objects.IsNewer(own.GetResourceVersion(), object.GetResourceVersion()) {
		delete(r.entries, key)
	}
}

// Gone notes an object that the watch shows as deleted, in place of [OwnWrites.Saw]. What was
// written to it is forgotten whatever its resource version: after a watch was broken the state that
// comes with a deletion is the one from before, and what would show how far the watch is comes
// after all deletions.
func (r *OwnWrites[T]) Gone(object T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.saw(object)
	if own, ok := r.entries[key]; ok && own.GetUID() == object.GetUID() {
		delete(r.entries, key)
	}
}

// Unseen are those of what was written that the watch cannot have shown, and that match. As in
// [OwnWrites.Read], ask before you look into the cache: what is not here by then is there.
func (r *OwnWrites[T]) Unseen(match func(T) bool) (all []T) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, own := range r.entries {
		if objects.IsNewer(own.GetResourceVersion(), r.seen) && match(own) {
			all = append(all, own)
		}
	}
	return all
}

// own is what was written and the watch has not shown, and whether that is ahead of all that the
// watch has shown.
func (r *OwnWrites[T]) own(key client.ObjectKey) (own T, remembered, ahead bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, remembered = r.entries[key]
	return own, remembered, remembered && objects.IsNewer(own.GetResourceVersion(), r.seen)
}

// sweepEvery is after how many events those entries go that no event takes away, since the watch
// was much faster than the answer to the write.
const sweepEvery = 1024

// saw notes how far the watch is. The caller holds mu.
//
// Nothing is swept while a list comes, of which the watch may owe us the objects that were written
// to: its objects are not in the order of their resource versions, as those of a watch are. An
// entry goes in the second sweep that finds it, for a list may have begun just before the first.
func (r *OwnWrites[T]) saw(object T) client.ObjectKey {
	key, version := client.ObjectKeyFromObject(object), object.GetResourceVersion()
	if !objects.IsNewer(version, r.seen) {
		r.events = 0
		return key
	}
	r.seen = version
	r.shown.note(key, version)
	if r.events++; r.events < sweepEvery {
		return key
	}
	for key, own := range r.entries {
		if !objects.IsNewer(own.GetResourceVersion(), r.swept) {
			delete(r.entries, key)
		}
	}
	r.events, r.swept = 0, version
	return key
}

// shown are the last objects that the watch has shown, those of a list left out. The answer to a
// write is often slower than that.
type shown struct {
	latest map[client.ObjectKey]sight
	order  []client.ObjectKey // a ring
	next   int
}

type sight struct {
	version string
	at      int // in the ring
}

const mostShown = 512

func (s *shown) note(key client.ObjectKey, version string) {
	if len(s.order) < mostShown {
		s.order = append(s.order, key)
	} else {
		if former := s.order[s.next]; s.latest[former].at == s.next {
			delete(s.latest, former)
		}
		s.order[s.next] = key
	}
	s.latest[key] = sight{version, s.next}
	s.next = (s.next + 1) % mostShown
}

// Handler feeds the memory from an informer.
func (r *OwnWrites[T]) Handler() toolscache.ResourceEventHandler {
	tell := func(in any, note func(T)) {
		if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = tombstone.Obj
		}
		if object, ok := in.(T); ok {
			note(object)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(in any) { tell(in, r.Saw) },
		UpdateFunc: func(_, in any) { tell(in, r.Saw) },
		DeleteFunc: func(in any) { tell(in, r.Gone) },
	}
}
