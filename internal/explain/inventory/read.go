package inventory

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// List reads every kind once. A kind that is not served or that may not be read is noted in the
// cluster's Unread, and the rest is read all the same. With a namespace, a kind that may not be
// read in the whole cluster is read in that namespace. Any other error is returned. For objects of
// the asked kinds, only what their explanation needs is read; without asked kinds, everything.
func List(
	ctx context.Context, reader client.Reader, namespace string, asked []explain.Kind, each func(client.Object),
) (map[explain.Kind]string, error) {
	unread := map[explain.Kind]string{}
	for _, k := range needed(asked, unread) {
		found, err := k.read(ctx, reader, namespace)
		if err != nil {
			return nil, err
		}
		if found.unread != "" {
			unread[k.name] = found.unread
		}
		if found.list == nil {
			continue
		}
		if err := forEach(found.list, each); err != nil {
			return nil, fmt.Errorf("list %s: %w", k.resource.Resource, err)
		}
	}
	return unread, nil
}

// found is what a reader may read of one kind.
type found struct {
	list   client.ObjectList        // nil if nothing may be read
	empty  func() client.ObjectList // a list of the version that is served
	in     string                   // the only namespace that may be read; empty for all
	unread string                   // what is not read, and why; empty if all is
}

// read lists a kind: in an older version where the newer is not served, and in the namespace where
// the whole cluster may not be read.
func (k kind) read(
	ctx context.Context, reader client.Reader, namespace string, opts ...client.ListOption,
) (f found, err error) {
	f.empty, f.list = k.list, k.list()
	err = reader.List(ctx, f.list, opts...)
	for _, older := range k.older {
		if !isUnserved(err) {
			break
		}
		f.empty, f.list = older, older()
		err = reader.List(ctx, f.list, opts...)
	}
	if apierrors.IsForbidden(err) && k.namespaced && namespace != "" {
		if err = reader.List(ctx, f.list, append(opts, client.InNamespace(namespace))...); err == nil {
			f.in, f.unread = namespace, explain.OnlyIn+namespace+onlyInEnd
		}
	}
	switch {
	case err == nil:
		return f, nil
	case apierrors.IsForbidden(err):
		return found{unread: "the permission to list " + k.resource.GroupResource().String() + " is missing"}, nil
	case isUnserved(err) && k.older != nil: // a cluster without the kind grants nothing
		return found{}, nil
	case isUnserved(err):
		return found{unread: "the API server does not serve them"}, nil
	}
	return found{}, fmt.Errorf("list %s: %w", k.resource.GroupResource(), err)
}

// needed returns the kinds to read, and notes the others as unread.
func needed(asked []explain.Kind, unread map[explain.Kind]string) []kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool {
		if !k.isNeeded(asked) {
			unread[k.name] = "they are not needed for the objects that were named"
		}
		return !k.isNeeded(asked)
	})
}

func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err)
}

func forEach(list client.ObjectList, each func(client.Object)) error {
	return meta.EachListItem(list, func(o runtime.Object) error {
		object, ok := o.(client.Object)
		if !ok {
			return fmt.Errorf("%T is not an API object", o)
		}
		each(object)
		return nil
	})
}

// Read returns the objects of the API server that [List] reads for the asked kinds.
func Read(
	ctx context.Context, reader client.Reader, namespace string, now time.Time, asked ...explain.Kind,
) (*explain.Cluster, error) {
	builder := NewBuilder(now)
	unread, err := List(ctx, reader, namespace, asked, builder.Add)
	if err != nil {
		return nil, err
	}
	builder.cluster.Unread = unread
	return prepare(builder.cluster), nil
}

// Builder collects objects of a dump.
type Builder struct {
	cluster *explain.Cluster
	seen    map[seenKey]bool
	kinds   map[explain.Kind]bool
	unread  map[explain.Kind]string // that the dump itself names
	objects []client.Object
	spans   []telemetry.Span

	undecodable []undecodable
}

// undecodable is an object with a value that its field cannot have.
type undecodable struct {
	kind explain.Kind
	name string
	err  error
}

type seenKey struct {
	kind            explain.Kind
	namespace, name string
}

// NewBuilder returns a builder without objects. now is the time of the dump.
func NewBuilder(now time.Time) *Builder {
	return &Builder{
		cluster: &explain.Cluster{Now: now},
		seen:    map[seenKey]bool{},
		kinds:   map[explain.Kind]bool{},
		unread:  map[explain.Kind]string{},
	}
}

// Add takes an object. Objects of other kinds, and an object that was added before, are left out.
func (b *Builder) Add(o client.Object) {
	k := kindOf(o)
	if k == nil {
		return
	}
	b.kinds[k.name] = true
	key := seenKey{k.name, o.GetNamespace(), o.GetName()}
	if !b.seen[key] {
		b.seen[key] = true
		k.add(b.cluster, o)
		b.objects = append(b.objects, o)
	}
}

// AddUnique takes an object as Add does, of which the builder has no other version. It is not among Objects.
func (b *Builder) AddUnique(o client.Object) {
	if k := kindOf(o); k != nil {
		b.kinds[k.name] = true
		k.add(b.cluster, o)
	}
}

// KindOf returns the kind of an object; empty for one that explanations do not read.
func KindOf(o client.Object) explain.Kind {
	if k := kindOf(o); k != nil {
		return k.name
	}
	return ""
}

// kindsByType are the kinds of the types that were seen: a record of a day has a cluster of many
// times.
var kindsByType sync.Map

// kindOf returns the kind of an object; nil for one that explanations do not read.
func kindOf(o client.Object) *kind {
	of := reflect.TypeOf(o)
	if k, known := kindsByType.Load(of); known {
		return k.(*kind) //nolint:forcetypeassert // nothing else is stored
	}
	for i := range kinds {
		if !kinds[i].add(&explain.Cluster{}, o) {
			continue
		}
		switch o.(type) {
		case *unstructured.Unstructured, *metav1.PartialObjectMetadata: // of several kinds
		default:
			kindsByType.Store(of, &kinds[i])
		}
		return &kinds[i]
	}
	return nil
}

// Complete notes that all objects of each kind have been added, but of those that are unread.
func (b *Builder) Complete(unread map[explain.Kind]string) {
	b.noteUnread(UnreadAnnotations(unread), true)
}

// Spans returns what the dump has of the roles' last calls and decisions.
func (b *Builder) Spans() []telemetry.Span { return b.spans }

// Objects returns the added objects. They must not be changed.
func (b *Builder) Objects() []client.Object { return b.objects }

// Empty notes that a list of this kind was in the dump, even one without objects.
func (b *Builder) Empty(of schema.GroupVersionKind) {
	for _, k := range kinds {
		if string(k.name)+"List" == of.Kind || string(k.name) == of.Kind {
			b.kinds[k.name] = true
		}
	}
}

// neverEmpty are the kinds of which every cluster with volumes has objects, or that dumps usually
// leave out: none of them in a dump means that they were not dumped.
var neverEmpty = map[explain.Kind]bool{
	explain.Claim: true, explain.Volume: true, explain.Class: true, explain.Node: true, explain.CSINode: true,
	explain.CSIDriver: true,
	explain.Lease:     true, explain.Event: true, explain.Secret: true, explain.Snapshot: true,
	explain.Deployment: true, explain.StatefulSet: true, explain.DaemonSet: true, explain.ReplicaSet: true,
}

// Cluster returns the added objects, and notes the kinds that the dump does not have.
func (b *Builder) Cluster() *explain.Cluster {
	b.cluster.Unread, b.cluster.NoneInDump = map[explain.Kind]string{}, map[explain.Kind]bool{}
	for _, k := range kinds {
		cause, named := b.unread[k.name]
		switch {
		case named:
			b.cluster.Unread[k.name] = cause
		case b.kinds[k.name]:
		case neverEmpty[k.name]:
			b.cluster.Unread[k.name] = "there are none in the dump"
		default:
			b.cluster.NoneInDump[k.name] = true
		}
	}
	for _, o := range b.undecodable {
		text := fmt.Sprintf("not %q, which cannot be decoded: %v", o.name, o.err)
		if before, ok := b.cluster.Unread[o.kind]; ok {
			text = before + "; " + text
		}
		b.cluster.Unread[o.kind] = text
		delete(b.cluster.NoneInDump, o.kind)
	}
	return prepare(b.cluster)
}

// Latest returns the newest time that an object of the dump names; the zero time if there is none.
func (b *Builder) Latest() time.Time {
	var latest time.Time
	note := func(t time.Time) {
		if t.After(latest) {
			latest = t
		}
	}
	for _, lease := range b.cluster.Leases {
		if lease.Spec.RenewTime != nil {
			note(lease.Spec.RenewTime.Time)
		}
	}
	for _, event := range b.cluster.Events {
		note(event.LastTimestamp.Time)
		note(event.EventTime.Time)
	}
	for _, node := range b.cluster.Nodes {
		for _, condition := range node.Status.Conditions {
			note(condition.LastHeartbeatTime.Time)
		}
	}
	if latest.IsZero() {
		for _, claim := range b.cluster.Claims {
			note(claim.CreationTimestamp.Time)
		}
		for _, pod := range b.cluster.Pods {
			note(pod.CreationTimestamp.Time)
		}
	}
	return latest
}

// SetNow sets the time of the dump.
func (b *Builder) SetNow(now time.Time) { b.cluster.Now = now }
