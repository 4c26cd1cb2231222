package ui

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/explain/inventory"
	"github.com/purser-csi/purser/internal/record"
	"github.com/purser-csi/purser/internal/roles/explain"
	pages "github.com/purser-csi/purser/internal/ui"
)

const (
	// settle is how long changes are collected before the pages are made anew: one step of the volume
	// plane writes several objects.
	settle = 300 * time.Millisecond
	// patience is after how long without a change the pages are made anew: a lease may have expired,
	// or a time have passed.
	patience = 10 * time.Second
	// share is the part of the time that new pages may take: after pages that took a second the next
	// ones are made nine seconds later.
	share = 9
)

// watched is a cluster that is watched.
type watched struct {
	title, namespace string
	live             *record.Live
	watcher          *inventory.Watcher
	metrics          *scraper // of roles; nil for none
}

// garbage is the part of the memory in use that may be garbage, in percent. The pages of a cluster
// are on the machine of a user, among other programs.
const garbage = 40

// saveMemory has garbage collected earlier than by default, unless the environment says when.
func saveMemory() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(garbage)
	}
}

// watch lists the objects, and follows their changes until the context ends.
func watch(ctx context.Context, from client.WithWatch, title, namespace, shown string) (*watched, error) {
	w := &watched{title: title, namespace: shown, live: &record.Live{}}
	each := func(seen inventory.Seen) { w.live.Object(seen, time.Now()) }
	var err error
	if w.watcher, err = inventory.Follow(ctx, from, namespace, each); err != nil {
		return nil, err
	}
	w.live.Listed(w.watcher.Unread(), time.Now())
	debug.FreeOSMemory() // the lists were decoded as a whole
	return w, nil
}

// state returns what is known now.
func (w *watched) state() *pages.State {
	now := time.Now()
	s := &pages.State{
		Title: w.title, Live: true, Namespace: w.namespace, Cluster: w.watcher.Cluster(now),
	}
	if w.metrics != nil {
		s.Rates = w.metrics.rates()
	}
	explain.OfLive(s, w.live, now)
	return s
}

// keep replaces the state of a server after changes, until the context ends.
func (w *watched) keep(ctx context.Context, server *pages.Server) {
	pause := settle
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(patience):
		case <-w.watcher.Changed():
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
		}
		began := time.Now()
		s := w.state()
		s.Prepare()
		server.Set(s)
		pause = max(settle, share*time.Since(began))
	}
}
