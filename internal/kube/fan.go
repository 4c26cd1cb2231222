package kube

import (
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// fan is an informer that has one registration for all its handlers, and delivers each event to the
// overlay and then to one handler after another. With a registration for each handler, the overlay
// would get an event once for each, and client-go would keep a buffer of 16 kB and two goroutines for
// each.
//
// A handler must not block, since it delays the overlay and all handlers of the kind, and must not add
// or remove handlers of its own kind.
//
// A handler that is added after the first event gets the objects of the store. The store can be ahead
// of what the fan has delivered. So the handler may get an old state after a newer one, or the deletion
// of an object that it never got; the last event about an object has its newest state. Only
// sources of controllers are added so, which call AddEventHandlerWithOptions: they enqueue keys. A
// handler that is added by AddEventHandler may follow the cache in order, and has a registration of
// its own if it is added late.
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

// serveOverlay delivers the events of the informer to the overlay, also if no handler is added. If events
// were delivered before, the overlay may not have known the kind, and gets the objects of the store.
func (f *fan) serveOverlay() error {
	f.adding.Lock()
	defer f.adding.Unlock()
	f.mu.Lock()
	if f.begun {
		f.replay(f.overlay)
	}
	f.mu.Unlock()
	return f.register()
}

// replay delivers the objects of the store to a handler, if the informer lets it be read. The caller holds
// mu: what comes to the store later is delivered later.
func (f *fan) replay(to toolscache.ResourceEventHandler) bool {
	from, ok := f.Informer.(interface{ GetStore() toolscache.Store })
	if !ok {
		return false
	}
	for _, object := range from.GetStore().List() {
		to.OnAdd(object, true)
	}
	return true
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
	if options.ResyncPeriod != nil || f.IsStopped() || !f.join(added, enqueues) {
		return f.Informer.AddEventHandlerWithOptions(overlayFirst{f.overlay, h}, options)
	}
	if err := f.register(); err != nil {
		f.leave(added)
		return nil, err
	}
	added.ResourceEventHandlerRegistration = f.registration
	return added, nil
}

// join adds a handler, unless it has missed an event and cannot get the objects of the store.
func (f *fan) join(added *fanned, enqueues bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun && (!enqueues || !f.replay(added.handler)) {
		return false
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

func (f *fan) deliver(event func(to toolscache.ResourceEventHandler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun = true
	event(f.overlay)
	for _, added := range f.handlers {
		event(added.handler)
	}
}

// overlayFirst is a handler with a registration of its own, and the overlay in front of it. An event that
// the overlay gets again changes nothing.
type overlayFirst struct {
	overlay, then toolscache.ResourceEventHandler
}

// OnAdd implements toolscache.ResourceEventHandler.
func (h overlayFirst) OnAdd(object any, isInInitialList bool) {
	h.overlay.OnAdd(object, isInInitialList)
	h.then.OnAdd(object, isInInitialList)
}

// OnUpdate implements toolscache.ResourceEventHandler.
func (h overlayFirst) OnUpdate(before, now any) {
	h.overlay.OnUpdate(before, now)
	h.then.OnUpdate(before, now)
}

// OnDelete implements toolscache.ResourceEventHandler.
func (h overlayFirst) OnDelete(object any) {
	h.overlay.OnDelete(object)
	h.then.OnDelete(object)
}
