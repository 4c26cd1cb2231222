package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/reclaim"
)

// holders asks the API server which volumes have a handle. It cannot be asked for those of one
// handle, so all are listed: once for everybody who waits when the list begins. Who asks while one
// is under way waits for the next, which has all that happened before he asked.
type holders struct {
	list func(ctx context.Context, into map[string][]string) error
	turn chan struct{} // one list at a time

	mu   sync.Mutex
	next *inquiry // that has not begun; nil when no caller waits for it
}

// inquiry is one list.
type inquiry struct {
	names map[string][]string // of volumes, by the handles that were asked for
	again bool                // a caller has asked before, in vain
	err   error
	ended chan struct{} // closed when the two above are known
}

const (
	// pageSize bounds the memory of one list.
	pageSize = 500
	// restsFor is how many times as long as a list took no other list begins, and restsMost is the
	// most, if the list was for one who asks again: while a driver is down there are attempts all
	// the time, and the API server has others to serve.
	restsFor  = 4
	restsMost = 10 * time.Second
)

func newHolders(list func(context.Context, map[string][]string) error) *holders {
	return &holders{list: list, turn: make(chan struct{}, 1)}
}

// of are the names of the volumes with a handle. again is for who has asked before.
func (h *holders) of(ctx context.Context, handle string, again bool) ([]string, error) {
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

// join returns the next list. It does not end with the context of the caller that asked first.
func (h *holders) join(ctx context.Context, handle string, again bool) *inquiry {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next == nil {
		h.next = &inquiry{names: map[string][]string{}, ended: make(chan struct{})}
		go h.run(context.WithoutCancel(ctx))
	}
	h.next.names[handle] = nil
	h.next.again = h.next.again || again
	return h.next
}

func (h *holders) run(ctx context.Context) {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	ctx, cancel := context.WithTimeout(ctx, apiBound)
	defer cancel()
	i, began := h.begin(), time.Now()
	i.err = h.list(ctx, i.names)
	close(i.ended)
	if i.again {
		time.Sleep(min(restsFor*time.Since(began), restsMost))
	}
}

// begin closes the list to further callers.
func (h *holders) begin() *inquiry {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := h.next
	h.next = nil
	return i
}

// allVolumes reads the PersistentVolumes that may share a handle.
func (c *Controller) allVolumes() client.Reader {
	if c.AllVolumes != nil {
		return c.AllVolumes
	}
	return c.Live
}

// listHolders adds the volumes of the driver to the handles that are asked for. All pages are of
// one version.
func (c *Controller) listHolders(ctx context.Context, into map[string][]string) error {
	for more := ""; ; {
		var page corev1.PersistentVolumeList
		if err := c.allVolumes().List(ctx, &page, client.Limit(pageSize), client.Continue(more)); err != nil {
			return fmt.Errorf("list the PersistentVolumes, to know which have the handle of one that is to be deleted: %w", err)
		}
		for i := range page.Items {
			handle := reclaim.Handle(&page.Items[i], c.Driver.Name)
			if names, asked := into[handle]; asked {
				into[handle] = append(names, page.Items[i].Name)
			}
		}
		if more = page.Continue; more == "" {
			return nil
		}
	}
}
