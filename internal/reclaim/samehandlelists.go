package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/reconcile"
)

// SameHandleLists lists live which objects of a kind have a handle. The API server cannot select by
// handle, so all are listed, once for all callers that wait when the list begins. A caller that
// comes during a list waits for the next one, which has everything written before the call.
type SameHandleLists struct {
	list func(ctx context.Context, into map[string][]string) error
	turn chan struct{} // holds the running list

	mu   sync.Mutex
	next *volumeList // not started; nil if no caller waits for it
}

// volumeList is one list, for all its callers.
type volumeList struct {
	names map[string][]string // of volumes, by the requested handles
	again bool                // a caller has listed before and is retrying
	err   error
	ended chan struct{} // closed when names and err are set
}

const (
	// pauseFactor times the duration of a list is the pause before the next one, at most maxPause,
	// if the list was for a retry: while a driver is down there are retries all the time, and they
	// must not load the API server.
	pauseFactor = 4
	maxPause    = 10 * time.Second
)

// NewSameHandleLists returns the lists that list makes: it adds the names of the objects to those of
// the requested handles.
func NewSameHandleLists(list func(context.Context, map[string][]string) error) *SameHandleLists {
	return &SameHandleLists{list: list, turn: make(chan struct{}, 1)}
}

// Of returns the names of the volumes with a handle. again says that the caller has listed before.
func (h *SameHandleLists) Of(ctx context.Context, handle string, again bool) ([]string, error) {
	i := h.join(ctx, handle, again)
	select {
	case <-i.ended:
		return i.names[handle], i.err
	case <-ctx.Done():
		return nil, fmt.Errorf(
			"wait for the list of PersistentVolumes, which tells whether another one has handle %q: %w",
			handle,
			ctx.Err(),
		)
	}
}

// join adds the caller to the next list, which does not end with the first caller's context.
func (h *SameHandleLists) join(ctx context.Context, handle string, again bool) *volumeList {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &volumeList{names: map[string][]string{}, ended: make(chan struct{})}
		go h.run(context.WithoutCancel(ctx))
	}
	h.next.names[handle] = nil
	h.next.again = h.next.again || again
	return h.next
}

func (h *SameHandleLists) run(ctx context.Context) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	ctx, cancel := context.WithTimeout(ctx, reconcile.APITimeout)
	defer cancel()
	i, began := h.begin(), time.Now()
	i.err = h.list(ctx, i.names)
	close(i.ended)
	if i.again {
		time.Sleep(min(pauseFactor*time.Since(began), maxPause))
	}
}

// begin starts the list: later callers wait for the next one.
func (h *SameHandleLists) begin() *volumeList {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.next
	h.next = nil
	return i
}
