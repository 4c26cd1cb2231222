package inventory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	explain "github.com/purser-csi/purser/internal/explain/rules"
)

// Watcher has the objects that explanations read, in one informer for each kind that may be read.
type Watcher struct {
	informers []toolscache.SharedIndexInformer
	unread    map[explain.Kind]string
	changed   chan struct{}
}

// Seen is a version of an object that an informer has received.
type Seen struct {
	Before, Object client.Object // Before is nil for an object that was not known
	Deleted        bool          // Object is its last version, as far as it is known
	Initial        bool          // it is from the first list
}

// Watch is [Follow] without a function.
func Watch(ctx context.Context, from client.WithWatch, namespace string, asked ...explain.Kind) (*Watcher, error) {
	return Follow(ctx, from, namespace, func(Seen) {}, asked...)
}

// Follow starts the informers of the kinds that [List] reads for the asked kinds, which end with
// the context, and returns when each has its first list. Of a kind that may be listed and not
// watched, the informer lists again, with growing pauses. each is called with each version, of
// different kinds at the same time.
func Follow(
	ctx context.Context, from client.WithWatch, namespace string, each func(Seen), asked ...explain.Kind,
) (*Watcher, error) {
	w := &Watcher{unread: map[explain.Kind]string{}, changed: make(chan struct{}, 1)}
	shared := newPool()
	var synced []toolscache.InformerSynced
	for _, k := range needed(asked, w.unread) {
		readable, err := k.read(ctx, from, namespace, client.Limit(1))
		if err != nil {
			return nil, err
		}
		if readable.unread != "" {
			w.unread[k.name] = readable.unread
		}
		if readable.list == nil {
			continue
		}
		informer := toolscache.NewSharedIndexInformer(listWatch{from, readable, shared}, nil, 0, toolscache.Indexers{})
		err = informer.SetWatchErrorHandlerWithContext(func(context.Context, *toolscache.Reflector, error) {})
		handler, handlerErr := informer.AddEventHandler(w.handler(each))
		if err = errors.Join(err, handlerErr, informer.SetTransform(shared.trim)); err != nil {
			return nil, err
		}
		w.informers, synced = append(w.informers, informer), append(synced, informer.HasSynced, handler.HasSynced)
		go informer.RunWithContext(ctx)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, context.Cause(ctx)
	}
	return w, nil
}

// handler passes what an informer receives to a function, and then signals a change.
func (w *Watcher) handler(each func(Seen)) toolscache.ResourceEventHandler {
	pass := func(before, now any, deleted, initial bool) {
		if unknown, is := now.(toolscache.DeletedFinalStateUnknown); is {
			now = unversioned(unknown.Obj)
		}
		s := Seen{Deleted: deleted, Initial: initial}
		if o, is := before.(client.Object); is {
			s.Before = named(o)
		}
		if o, is := now.(client.Object); is {
			s.Object = named(o)
			each(s)
		}
		w.note()
	}
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(o any, initial bool) { pass(nil, o, false, initial) },
		UpdateFunc: func(before, o any) { pass(before, o, false, false) },
		DeleteFunc: func(o any) { pass(nil, o, true, false) },
	}
}

// unversioned returns an object whose deletion the watch missed: its version is that of the last change that
// was seen, not that of the deletion.
func unversioned(object any) any {
	o, is := object.(client.Object)
	if !is {
		return object
	}
	o = o.DeepCopyObject().(client.Object)
	o.SetResourceVersion("")
	return o
}

// Unread returns the kinds that may not be read, with the cause.
func (w *Watcher) Unread() map[explain.Kind]string { return w.unread }

// note signals a change. A signal that has not been received stands for all changes until it is.
func (w *Watcher) note() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Changed receives after objects have changed.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Cluster returns the objects as the informers have them, in the order of an API server.
func (w *Watcher) Cluster(now time.Time) *explain.Cluster {
	builder := NewBuilder(now)
	for _, informer := range w.informers {
		var objects []client.Object
		for _, item := range informer.GetStore().List() {
			if o, is := item.(client.Object); is {
				objects = append(objects, named(o))
			}
		}
		slices.SortFunc(objects, byKey)
		for _, o := range objects {
			builder.AddUnique(o)
		}
	}
	builder.cluster.Unread = w.unread
	return prepare(builder.cluster)
}

// named returns an object of which only metadata is read with its own kind, which a watch leaves
// out: it is a Secret.
func named(o client.Object) client.Object {
	partial, is := o.(*metav1.PartialObjectMetadata)
	if !is {
		return o
	}
	partial = partial.DeepCopy()
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(explain.Secret)))
	return partial
}

func byKey(a, b client.Object) int {
	return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
}

// listWatch lists and watches what may be read of one kind.
type listWatch struct {
	from     client.WithWatch
	readable found
	shared   *pool
}

// IsWatchListSemanticsUnSupported has the informer list before it watches: not every client of this
// package sends the objects that exist in a watch.
func (listWatch) IsWatchListSemanticsUnSupported() bool { return true }

func (l listWatch) options(raw *metav1.ListOptions) []client.ListOption {
	return []client.ListOption{
		&client.ListOptions{Raw: raw, Limit: raw.Limit, Continue: raw.Continue}, client.InNamespace(l.readable.in),
	}
}

// List implements toolscache.Lister.
func (l listWatch) List(options metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), options)
}

// ListWithContext implements toolscache.ListerWithContext. The API server answers in pages, each of
// which is trimmed: the whole list takes several times the memory of what is kept of it. A list of
// the version 0, as the informer asks for it first, has no pages.
func (l listWatch) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" && options.Limit > 0 {
		options.ResourceVersion = ""
	}
	list := l.readable.empty()
	if err := l.from.List(ctx, list, l.options(&options)...); err != nil {
		return list, err
	}
	return list, meta.EachListItem(list, func(o runtime.Object) error {
		_, err := l.shared.trim(o)
		return err
	})
}

// Watch implements toolscache.Watcher.
func (l listWatch) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements toolscache.WatcherWithContext.
func (l listWatch) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	return l.from.Watch(ctx, l.readable.empty(), l.options(&options)...)
}
