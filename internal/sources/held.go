package sources

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	source "github.com/purser-csi/purser/internal/sources/rules"
)

// held is one source that has, or had, the finalizer.
type held struct {
	// turn has one element while the finalizer is added or removed. It is a lock that is waited for
	// no longer than a context lasts, since its holder waits for the API server.
	turn  chan struct{}
	begun int // calls that used the source, guarded by the mutex of the register
	// protected is the source as this process last knew it with the finalizer; the zero value when it does
	// not know. It is guarded by the mutex of the register, and changes only under the lock.
	protected source.State
}

// lock returns when no other goroutine adds or removes the finalizer.
func (h *held) lock(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *held) unlock() { <-h.turn }

// register knows the sources with the finalizer and the calls that use them. It is safe for
// concurrent use.
type register struct {
	mu      sync.Mutex
	sources map[source.Ref]*held
	calls   map[types.UID]source.Ref // by the uid of the claim
	tell    func(source.Ref)         // enqueues a source; nil before the controller runs
}

// begin counts a claim as a user of a source.
func (r *register) begin(ref source.Ref, claim types.UID) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[claim] = ref
	one := r.of(ref)
	one.begun++
	return one
}

// end returns the source that a claim used.
func (r *register) end(claim types.UID) (source.Ref, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ref, ok := r.calls[claim]
	delete(r.calls, claim)
	return ref, ok
}

// count returns how many calls use a source, and how many have begun to.
func (r *register) count(ref source.Ref) (calls, begun int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, used := range r.calls {
		if used == ref {
			calls++
		}
	}
	if one := r.sources[ref]; one != nil {
		begun = one.begun
	}
	return calls, begun
}

// protected returns the source as this process last knew it with the finalizer. The object must not be
// changed.
func (r *register) protected(ref source.Ref) source.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.sources[ref]; one != nil {
		return one.protected
	}
	return source.State{}
}

// setProtected sets what [register.protected] returns. The caller has locked the source.
func (r *register) setProtected(ref source.Ref, now source.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(ref).protected = now
}

// get returns a source, which is known from now on.
func (r *register) get(ref source.Ref) *held {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of(ref)
}

// of returns a source, which is known from now on. The caller holds r.mu.
func (r *register) of(ref source.Ref) *held {
	one := r.sources[ref]
	if one == nil {
		one = &held{turn: make(chan struct{}, 1)}
		r.sources[ref] = one
	}
	return one
}

// know adds a source that may have the finalizer.
func (r *register) know(ref source.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(ref)
}

// isKnown reports whether a source may have the finalizer.
func (r *register) isKnown(ref source.Ref) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sources[ref] != nil
}

// forget drops a source without the finalizer, unless a call uses it.
func (r *register) forget(ref source.Ref) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, used := range r.calls {
		if used == ref {
			return
		}
	}
	delete(r.sources, ref)
}

func (r *register) enqueue(ref source.Ref) {
	r.mu.Lock()
	tell := r.tell
	r.mu.Unlock()
	if tell != nil {
		tell(ref)
	}
}

func (r *register) enqueueAll() {
	r.mu.Lock()
	tell, all := r.tell, make([]source.Ref, 0, len(r.sources))
	for ref := range r.sources {
		all = append(all, ref)
	}
	r.mu.Unlock()
	for _, ref := range all {
		if tell != nil {
			tell(ref)
		}
	}
}

// listen has the queue told of sources from now on, first of those that are known already.
func (r *register) listen(tell func(source.Ref)) {
	r.mu.Lock()
	r.tell = tell
	r.mu.Unlock()
	r.enqueueAll()
}
