package kube

import (
	"context"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// heldInformer keeps the handler that was added last.
type heldInformer struct {
	cache.Cache
	cache.Informer
	handler toolscache.ResourceEventHandler
	added   int
}

func (i *heldInformer) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return i, nil
}

func (i *heldInformer) IsStopped() bool { return false }

func (i *heldInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handler, i.added = h, i.added+1
	return &fanned{}, nil
}

type withCache struct {
	manager.Manager
	cache cache.Cache
}

func (w withCache) GetCache() cache.Cache { return w.cache }

// A handler of a deletion does not find the object any more, though this process wrote it last.
func TestOverlayHearsFirst(t *testing.T) {
	o := newOverlaid(t)
	informer := &heldInformer{}
	mgr := o.overlay.Before(withCache{cache: informer})
	va := o.create(attachment("a", "n"))
	got, err := mgr.GetCache().GetInformer(t.Context(), va)
	if err != nil {
		t.Fatal(err)
	}
	called := false
	if _, err := got.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(any) {
		called = true
		if now := o.get("a"); now != nil {
			t.Errorf("still there: %+v", now)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	if o.get("a") == nil {
		t.Fatal("the own write is not there")
	}
	informer.handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: va})
	if !called {
		t.Error("the handler was not called")
	}
}

// The overlay gets each event of a kind that it watches once, by the registration of the other handlers.
func TestOverlayWatchesByTheFan(t *testing.T) {
	o := NewOverlay(nil, clocktesting.NewFakeClock(time.Unix(0, 0)))
	held := &heldInformer{}
	informers := o.Before(withCache{cache: held}).GetCache()
	if err := o.Watch(t.Context(), informers, &storagev1.VolumeAttachment{}, &storagev1.CSINode{}); err != nil {
		t.Fatal(err)
	}
	informer, err := informers.GetInformer(t.Context(), &storagev1.VolumeAttachment{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
		t.Fatal(err)
	}
	if held.added != 1 {
		t.Errorf("%d registrations", held.added)
	}
}

// IndexField implements cache.Cache.
func (i *heldInformer) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// What is indexed through the manager can be listed with own writes.
func TestOverlayKnowsTheIndexes(t *testing.T) {
	o := newOverlaid(t)
	mgr := o.overlay.Before(withCache{cache: &heldInformer{}})
	index := IndexBy("attacher", func(va *storagev1.VolumeAttachment) []string { return []string{va.Spec.Attacher} })
	if err := AddIndexes(t.Context(), mgr.GetFieldIndexer(), index); err != nil {
		t.Fatal(err)
	}
	matches, err := o.overlay.matcher(itemType(&storagev1.VolumeAttachmentList{}), []client.ListOption{
		client.MatchingFields{"attacher": "d"},
	})
	if err != nil || !matches(attachment("a", "n")) {
		t.Errorf("no match: %v", err)
	}
}

// A sweep of own writes is not put off by handlers that deliver the same event again.
func TestEventsThatAreRepeated(t *testing.T) {
	r := NewOwnWrites[*storagev1.VolumeAttachment]()
	for i := range 10 {
		va := attachment("a", "n")
		va.ResourceVersion = string(rune('1'+i/5)) + string(rune('0'+i%5))
		for range 3 {
			r.Saw(va)
		}
	}
	if r.events != 10 {
		t.Errorf("%d events since the last sweep; want 10", r.events)
	}
}
