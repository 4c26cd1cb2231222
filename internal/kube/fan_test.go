package kube

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// countedInformer is an informer of client-go that counts the registrations.
type countedInformer struct {
	toolscache.SharedIndexInformer
	registered int
	refused    error
}

func (i *countedInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	if i.refused != nil {
		return nil, i.refused
	}
	i.registered++
	return i.SharedIndexInformer.AddEventHandler(h)
}

func (i *countedInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.registered++
	return i.SharedIndexInformer.AddEventHandlerWithOptions(h, options)
}

// fanRig has a fan over an informer of a source that a test changes.
type fanRig struct {
	*fan
	t        *testing.T
	source   *cachetesting.FakeControllerSource
	informer *countedInformer

	gotMu sync.Mutex          // handlers with registrations of their own run beside the others
	got   map[string][]string // by the name of the handler
}

func newFanRig(t *testing.T) *fanRig {
	source := cachetesting.NewFakeControllerSource()
	informer := &countedInformer{
		SharedIndexInformer: toolscache.NewSharedIndexInformer(source, &storagev1.VolumeAttachment{}, 0, nil),
	}
	r := &fanRig{t: t, source: source, informer: informer, got: map[string][]string{}}
	r.fan = &fan{Informer: informer, overlay: r.handler("overlay")}
	return r
}

// handler keeps the events that it gets under a name.
func (r *fanRig) handler(name string) toolscache.ResourceEventHandler {
	note := func(what string, o any) {
		r.gotMu.Lock()
		defer r.gotMu.Unlock()
		r.got[name] = append(r.got[name], what+o.(client.Object).GetName())
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, _ bool) { note("+", o) },
		UpdateFunc: func(_, o any) { note("~", o) },
		DeleteFunc: func(o any) { note("-", o) },
	}
}

// enqueuing adds a handler as the source of a controller does.
func (r *fanRig) enqueuing(name string) toolscache.ResourceEventHandlerRegistration {
	registration, err := r.AddEventHandlerWithOptions(r.handler(name), toolscache.HandlerOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return registration
}

func (r *fanRig) expect(name string, want ...string) {
	r.t.Helper()
	synctest.Wait()
	r.gotMu.Lock()
	defer r.gotMu.Unlock()
	if !slices.Equal(r.got[name], want) {
		r.t.Errorf("%s got %v; want %v", name, r.got[name], want)
	}
}

// run runs a test with the informer's goroutines in a bubble.
func (r *fanRig) run(test func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.informer.RunWithContext(ctx) }()
	synctest.Wait()
	test()
	cancel()
	<-done
	r.source.Shutdown()
}

func TestFanDeliversToAllByOneRegistration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		a, b := r.enqueuing("a"), r.enqueuing("b")
		r.source.Add(attachment("v", "n"))
		r.run(func() {
			r.source.Modify(attachment("v", "n"))
			r.source.Delete(attachment("v", "n"))
			for _, name := range []string{"overlay", "a", "b"} {
				r.expect(name, "+v", "~v", "-v")
			}
			if !a.HasSynced() || !b.HasSynced() || r.informer.registered != 1 {
				t.Errorf("synced: %v, %v; %d registrations", a.HasSynced(), b.HasSynced(), r.informer.registered)
			}
		})
	})
}

// A process that gets the lease adds its handlers to informers that run.
func TestFanTellsAHandlerThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		r.enqueuing("a")
		r.source.Add(attachment("v", "n"))
		r.run(func() {
			r.expect("a", "+v")
			late := r.enqueuing("late")
			r.expect("late", "+v")
			r.source.Add(attachment("w", "n"))
			r.source.Delete(attachment("v", "n"))
			r.expect("late", "+v", "+w", "-v")
			r.expect("overlay", "+v", "+w", "-v")
			if !late.HasSynced() || r.informer.registered != 1 {
				t.Errorf("synced: %v; %d registrations", late.HasSynced(), r.informer.registered)
			}
		})
	})
}

// The store can be ahead of what the fan has delivered. A handler that follows the cache in order must
// not get that twice.
func TestFanKeepsTheOrderOfAStateThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		r.enqueuing("a")
		open := make(chan struct{})
		waits := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { <-open }}
		if _, err := r.AddEventHandler(waits); err != nil {
			t.Fatal(err)
		}
		r.source.Add(attachment("v", "n"))
		r.run(func() {
			r.source.Modify(attachment("v", "n"))
			r.source.Modify(attachment("v", "n"))
			r.expect("a", "+v", "~v")
			go close(open)
			if _, err := r.AddEventHandler(r.handler("state")); err != nil {
				t.Fatal(err)
			}
			r.expect("state", "+v")
			r.expect("a", "+v", "~v", "~v")
			if r.informer.registered != 2 {
				t.Errorf("%d registrations", r.informer.registered)
			}
		})
	})
}

// A kind is watched after its informer has begun: the overlay learns how far the watch is.
func TestFanTellsAnOverlayThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		r.enqueuing("a")
		r.source.Add(attachment("v", "n"))
		r.run(func() {
			r.expect("overlay", "+v")
			if err := r.serveOverlay(); err != nil {
				t.Fatal(err)
			}
			r.expect("overlay", "+v", "+v")
			r.expect("a", "+v")
		})
	})
}

func TestFanDeliversNothingToAHandlerThatWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		a := r.enqueuing("a")
		r.enqueuing("b")
		r.run(func() {
			if err := r.RemoveEventHandler(a); err != nil {
				t.Fatal(err)
			}
			r.source.Add(attachment("v", "n"))
			r.expect("b", "+v")
			r.expect("a")
		})
	})
}

func TestFanHasNoHandlerThatTheInformerRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFanRig(t)
		r.informer.refused = errors.New("refused")
		if _, err := r.AddEventHandler(r.handler("a")); !errors.Is(err, r.informer.refused) {
			t.Errorf("got %v", err)
		}
		r.informer.refused = nil
		r.enqueuing("b")
		r.run(func() {
			r.source.Add(attachment("v", "n"))
			r.expect("b", "+v")
			r.expect("a")
		})
		if _, err := r.AddEventHandler(r.handler("c")); err == nil {
			t.Error("a handler was added to an informer that has stopped")
		}
	})
}
