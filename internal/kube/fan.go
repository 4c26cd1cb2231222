package kube

import (
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// fan is an informer that has one registration for all its handlers, and delivers each event to the
// overlay and then to one handler after another. With a registration each, the overlay would hear an
// event once for each handler, and client-go keep a buffer of 16 kB and two goroutines for each, which
// an event passes by two channels.
//
// A handler that comes after the first event is told the objects of the store, in which events can be
// that the fan has not delivered yet. It hears these once more: an old state after a newer one, or the
// end of an object that it was never told of. That is harmless to a handler that enqueues keys, and only
// sources of controllers, which call AddEventHandlerWithOptions, are added so. A handler that is added by
// AddEventHandler may follow the cache in order, and has a registration of its own if it comes late.
type fan struct {
	cache.Informer
	view    *ownView
	overlay toolscache.ResourceEventHandler // of the view

	adding       sync.Mutex // held while a handler is added or removed
	registration toolscache.ResourceEventHandlerRegistration

	mu       sync.Mutex // held while an event is delivered
	handlers []*fanned
	begun    bool // an event was delivered
}

// fanned is a handler of a fan, and its registration: it has synced when the fan has.
type fanned struct {
	toolscache.ResourceEventHandlerRegistration
	handler toolscache.ResourceEventHandler
}

// hear lets the overlay hear the events of the informer, also if no handler is added.
func (f *fan) hear() error {
	f.adding.Lock()
	defer f.adding.Unlock()
	return f.register()
}

// register adds the fan to the informer once. The caller holds adding.
func (f *fan) register() (err error) {
	if f.registration == nil {
		f.registration, err = f.Informer.AddEventHandler(f)
	}
	return err
}

// AddEventHandler implements cache.Informer.
func (f *fan) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return f.add(h, false, toolscache.HandlerOptions{})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (f *fan) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return f.add(h, true, options)
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (f *fan) AddEventHandlerWithResyncPeriod(
	h toolscache.ResourceEventHandler, resync time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return f.add(h, false, toolscache.HandlerOptions{ResyncPeriod: &resync})
}

func (f *fan) add(
	h toolscache.ResourceEventHandler, enqueues bool, options toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	f.adding.Lock()
	defer f.adding.Unlock()
	added := &fanned{handler: h}
	if options.ResyncPeriod != nil || f.Informer.IsStopped() || !f.join(added, enqueues) {
		return f.Informer.AddEventHandlerWithOptions(heardFirst{f.overlay, h}, options)
	}
	if err := f.register(); err != nil {
		f.leave(added)
		return nil, err
	}
	added.ResourceEventHandlerRegistration = f.registration
	return added, nil
}

// join adds a handler, unless it has missed an event and cannot be told the objects of the store.
func (f *fan) join(added *fanned, enqueues bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun {
		from, ok := f.Informer.(interface{ GetStore() toolscache.Store })
		if !ok || !enqueues {
			return false
		}
		// Nothing is delivered meanwhile: what comes to the store after this list is delivered after it.
		for _, object := range from.GetStore().List() {
			added.handler.OnAdd(object, true)
		}
	}
	f.handlers = append(f.handlers, added)
	return true
}

func (f *fan) leave(added *fanned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers = slices.DeleteFunc(f.handlers, func(h *fanned) bool { return h == added })
}

// RemoveEventHandler implements cache.Informer.
func (f *fan) RemoveEventHandler(registration toolscache.ResourceEventHandlerRegistration) error {
	if added, ok := registration.(*fanned); ok {
		f.leave(added)
		return nil
	}
	return f.Informer.RemoveEventHandler(registration)
}

// OnAdd implements toolscache.ResourceEventHandler.
func (f *fan) OnAdd(object any, isInInitialList bool) {
	f.deliver(func(to toolscache.ResourceEventHandler) { to.OnAdd(object, isInInitialList) })
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (f *fan) OnUpdate(before, now any) {
	f.deliver(func(to toolscache.ResourceEventHandler) { to.OnUpdate(before, now) })
}

// OnDelete implements toolscache.ResourceEventHandler.
func (f *fan) OnDelete(object any) {
	f.deliver(func(to toolscache.ResourceEventHandler) { to.OnDelete(object) })
}

func (f *fan) deliver(tell func(to toolscache.ResourceEventHandler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	tell(f.overlay)
	for _, added := range f.handlers {
		tell(added.handler)
	}
}

// heardFirst is a handler with a registration of its own, and the overlay in front of it. What the overlay
// hears again changes nothing.
type heardFirst struct {
	overlay, then toolscache.ResourceEventHandler
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h heardFirst) OnAdd(object any, isInInitialList bool) {
	h.overlay.OnAdd(object, isInInitialList)
	h.then.OnAdd(object, isInInitialList)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h heardFirst) OnUpdate(before, now any) {
	h.overlay.OnUpdate(before, now)
	h.then.OnUpdate(before, now)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h heardFirst) OnDelete(object any) {
	h.overlay.OnDelete(object)
	h.then.OnDelete(object)
}
