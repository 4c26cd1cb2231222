package kube

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

const byNode = "node"

// overlaid is an API server, a cache that shows it when the test says so, and the overlay.
type overlaid struct {
	t       *testing.T
	server  client.Client
	cached  client.Client
	overlay *Overlay
	writer  client.Client
}

func newOverlaid(t *testing.T) overlaid {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, storagev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	index := IndexBy(byNode, func(va *storagev1.VolumeAttachment) []string { return []string{va.Spec.NodeName} })
	build := func() client.Client {
		return fake.NewClientBuilder().WithScheme(scheme).WithIndex(index.Kind, index.Field, index.Values).Build()
	}
	o := overlaid{t: t, server: build(), cached: build()}
	o.overlay = NewOverlay(o.cached, clocktesting.NewFakeClock(time.Unix(0, 0)))
	o.overlay.Fed(&storagev1.VolumeAttachment{})
	o.overlay.Index(index)
	o.writer = o.overlay.Recording(o.server)
	return o
}

func attachment(name, node string, finalizers ...string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Finalizers: finalizers},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: node, Attacher: "d"},
	}
}

func (o overlaid) create(va *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	o.t.Helper()
	if err := o.writer.Create(o.t.Context(), va); err != nil {
		o.t.Fatal(err)
	}
	return va
}

// show makes the cache as new as the server and delivers the events.
func (o overlaid) show() {
	o.t.Helper()
	var before, now storagev1.VolumeAttachmentList
	for list, from := range map[*storagev1.VolumeAttachmentList]client.Client{&before: o.cached, &now: o.server} {
		if err := from.List(o.t.Context(), list); err != nil {
			o.t.Fatal(err)
		}
	}
	for i := range before.Items {
		old := &before.Items[i]
		old.Finalizers = nil
		if err := o.cached.Update(o.t.Context(), old); err != nil {
			o.t.Fatal(err)
		}
		_ = o.cached.Delete(o.t.Context(), old) // gone already if it was being deleted
		if !slices.ContainsFunc(now.Items, func(va storagev1.VolumeAttachment) bool { return va.UID == old.UID }) {
			o.overlay.Gone(old)
		}
	}
	for i := range now.Items {
		shown := now.Items[i].DeepCopy()
		tracked := shown.DeepCopy()
		tracked.ResourceVersion = ""
		if shown.DeletionTimestamp == nil {
			if err := o.cached.Create(o.t.Context(), tracked); err != nil {
				o.t.Fatal(err)
			}
		}
		o.overlay.Saw(shown)
	}
}

func (o overlaid) onNode(node string) (names []string) {
	o.t.Helper()
	var list storagev1.VolumeAttachmentList
	if err := o.overlay.List(o.t.Context(), &list, client.MatchingFields{byNode: node}); err != nil {
		o.t.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (o overlaid) get(name string) *storagev1.VolumeAttachment {
	o.t.Helper()
	va, err := Get(o.t.Context(), o.overlay, client.ObjectKey{Name: name}, &storagev1.VolumeAttachment{})
	if err != nil {
		o.t.Fatal(err)
	}
	return va
}

func (o overlaid) expect(when string, want ...string) {
	o.t.Helper()
	if got := o.onNode("n"); !slices.Equal(got, want) {
		o.t.Errorf("%s: on the node are %q; want %q", when, got, want)
	}
}

// What this process created is there before the watch shows it, and once afterwards.
func TestOverlayShowsCreated(t *testing.T) {
	o := newOverlaid(t)
	o.create(attachment("a", "n"))
	o.create(attachment("b", "other"))
	o.expect("before the watch", "a")
	if o.get("a") == nil {
		t.Error("a is not there")
	}
	o.show()
	o.expect("after the watch", "a")
}

// A change is read before the watch shows it; an object that does not match any more is not listed.
func TestOverlayShowsChanged(t *testing.T) {
	o := newOverlaid(t)
	va := o.create(attachment("a", "n"))
	o.show()
	va.Spec.NodeName = "other"
	va.Annotations = map[string]string{"a": "1"}
	if err := o.writer.Update(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	va.Annotations["a"] = "2" // the caller's own copy
	if got := o.get("a"); got == nil || got.Annotations["a"] != "1" {
		t.Errorf("read %+v", got)
	}
	o.expect("after the change")
	if got := o.onNode("other"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("on the other node are %q", got)
	}
}

// Without finalizers a deleted object is gone, and with one it is being deleted until that is removed.
func TestOverlayShowsDeleted(t *testing.T) {
	o := newOverlaid(t)
	plain, held := o.create(attachment("a", "n")), o.create(attachment("b", "n", "f/f"))
	o.show()
	for _, va := range []*storagev1.VolumeAttachment{plain, held} {
		if err := o.writer.Delete(t.Context(), va.DeepCopy()); err != nil {
			t.Fatal(err)
		}
	}
	o.expect("after the deletion", "b")
	if got := o.get("b"); got == nil || got.DeletionTimestamp == nil {
		t.Errorf("b is not being deleted: %+v", got)
	}
	if got := o.get("a"); got != nil {
		t.Errorf("a is there: %+v", got)
	}
	now := &storagev1.VolumeAttachment{}
	if err := o.server.Get(t.Context(), client.ObjectKeyFromObject(held), now); err != nil {
		t.Fatal(err)
	}
	bare := now.DeepCopy()
	bare.Finalizers = nil
	if err := o.writer.Patch(t.Context(), bare, client.MergeFrom(now)); err != nil {
		t.Fatal(err)
	}
	o.expect("after the finalizer")
	o.show()
	o.expect("after the watch")
	again := attachment("b", "n")
	again.UID, again.ResourceVersion = "b2", "200"
	o.overlay.Wrote(again)
	o.expect("created again", "b")
}

// A deletion of which the watch shows that another client's finalizer delays it shows so.
func TestOverlayTrustsTheWatch(t *testing.T) {
	o := newOverlaid(t)
	va := o.create(attachment("a", "n"))
	o.show()
	if err := o.writer.Delete(t.Context(), va.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	o.expect("after the deletion")
	delayed := va.DeepCopy()
	delayed.Finalizers, delayed.DeletionTimestamp = []string{"f/f"}, new(metav1.Unix(1, 0))
	delayed.ResourceVersion = "100"
	o.overlay.Saw(delayed)
	o.expect("after the watch", "a")
}

// during is a cache of which the watch delivers something right after each read.
type during struct {
	client.Reader
	after func()
}

func (d during) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	defer d.after()
	return d.Reader.Get(ctx, key, into, opts...)
}

func (d during) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	defer d.after()
	return d.Reader.List(ctx, list, opts...)
}

// The watch may deliver the end of an object, upon which the overlay forgets it, between the read of the
// cache and the question whether this process ended it.
func TestOverlayAndTheWatchAtOnce(t *testing.T) {
	for name, finalizers := range map[string][]string{"without a finalizer": nil, "the last finalizer is removed": {"f/f"}} {
		for _, lists := range []bool{false, true} {
			o := newOverlaid(t)
			va := o.create(attachment("a", "n", finalizers...))
			o.show()
			if err := o.writer.Delete(t.Context(), va.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if finalizers != nil {
				now := &storagev1.VolumeAttachment{}
				if err := o.server.Get(t.Context(), client.ObjectKeyFromObject(va), now); err != nil {
					t.Fatal(err)
				}
				bare := now.DeepCopy()
				bare.Finalizers = nil
				if err := o.writer.Patch(t.Context(), bare, client.MergeFrom(now)); err != nil {
					t.Fatal(err)
				}
			}
			shown := false
			o.overlay = o.overlay.Over(during{o.cached, func() {
				if !shown {
					shown = true
					o.show()
				}
			}})
			if lists {
				o.expect(name + ", listed")
			} else if got := o.get("a"); got != nil {
				t.Errorf("%s: read %+v", name, got)
			}
		}
	}
}

// A kind that is not watched is as the cache has it, and an unknown index is an error.
func TestOverlayOfOthers(t *testing.T) {
	o := newOverlaid(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if err := o.writer.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if got, err := Get(t.Context(), o.overlay, client.ObjectKey{Name: "n"}, &corev1.Node{}); err != nil || got != nil {
		t.Errorf("read %v, %v", got, err)
	}
	o.create(attachment("a", "n"))
	if err := o.overlay.List(t.Context(), &storagev1.VolumeAttachmentList{},
		client.MatchingFields{"unknown": "n"}); err == nil {
		t.Error("an unknown index is accepted")
	}
}

// oneInformer counts the handlers that are added.
type oneInformer struct {
	cache.Informers
	cache.Informer
	handlers int
}

func (i *oneInformer) GetInformer(
	context.Context, client.Object, ...cache.InformerGetOption,
) (cache.Informer, error) {
	return i, nil
}

func (i *oneInformer) AddEventHandler(
	toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.handlers++
	return nil, nil //nolint:nilnil // the overlay does not need it
}

// Controllers that share an overlay may watch the same kinds.
func TestOverlayWatchesOnce(t *testing.T) {
	informers := &oneInformer{}
	o := NewOverlay(nil, clocktesting.NewFakeClock(time.Unix(0, 0)))
	for range 2 {
		if err := o.Watch(t.Context(), informers, &corev1.PersistentVolume{}); err != nil {
			t.Fatal(err)
		}
	}
	if informers.handlers != 1 {
		t.Errorf("%d handlers", informers.handlers)
	}
}
