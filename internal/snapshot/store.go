package snapshot

import (
	"context"
	"fmt"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
)

// storable is a pointer to an API type.
type storable[T any] interface {
	client.Object
	DeepCopy() T
}

// store reads and writes the objects of one kind, and remembers what this process wrote until the
// informer cache has it.
type store[T storable[T]] struct {
	*kube.OwnWrites[T]
	kind     string               // as errors name it
	resource schema.GroupResource // in the plural
	cached   client.Reader
	writer   client.Client
	blank    T // an object without contents, which a read fills a copy of
	// deleted are objects that this process deleted, and ended those whose last finalizer it removed
	// afterwards, until the watch shows that. The answer to that write has the version from before.
	deleted, ended *kube.EndedObjects
}

func newStore[T storable[T]](
	kind string, resource schema.GroupResource, cached client.Reader, writer client.Client, blank T,
) store[T] {
	return store[T]{
		kube.NewOwnWrites[T](), kind, resource, cached, writer, blank, &kube.EndedObjects{}, &kube.EndedObjects{},
	}
}

func newContentStore(cached client.Reader, writer client.Client) store[*snapshotv1.VolumeSnapshotContent] {
	return newStore("VolumeSnapshotContent", snapshotv1.Resource("volumesnapshotcontents"), cached, writer,
		&snapshotv1.VolumeSnapshotContent{})
}

func newGroupContentStore(cached client.Reader, writer client.Client) store[*groupv1.VolumeGroupSnapshotContent] {
	return newStore("VolumeGroupSnapshotContent", groupv1.Resource("volumegroupsnapshotcontents"), cached, writer,
		&groupv1.VolumeGroupSnapshotContent{})
}

// Saw notes an object that came through the watch.
func (s store[T]) Saw(o T) {
	s.OwnWrites.Saw(o)
	if o.GetDeletionTimestamp() != nil {
		s.deleted.Forget(o.GetUID())
	}
}

// Gone notes an object that the watch shows as deleted.
func (s store[T]) Gone(o T) {
	s.OwnWrites.Gone(o)
	s.deleted.Forget(o.GetUID())
	s.ended.Forget(o.GetUID())
}

// get returns the newer of the cached object and what this process wrote; nil if there is none. One
// that this process deleted is being deleted, or is gone, though the cache does not show it yet.
func (s store[T]) get(ctx context.Context, key client.ObjectKey) (T, error) {
	o, err := kube.ReadOwn(ctx, s.cached, s.OwnWrites, key, s.blank.DeepCopy())
	switch {
	case err != nil || isNil(o):
		return o, err
	case s.ended.Has(o.GetUID()):
		var none T
		return none, nil
	case o.GetDeletionTimestamp() == nil && s.deleted.Has(o.GetUID()):
		o = o.DeepCopy()
		o.SetDeletionTimestamp(new(metav1.Now()))
	}
	return o, nil
}

// newest returns the newest version of an object that this process knows; a NotFound error if the
// object does not exist any more or another one has its name.
func (s store[T]) newest(ctx context.Context, of T) (T, error) {
	var none T
	now, err := s.get(ctx, client.ObjectKeyFromObject(of))
	if err == nil && (isNil(now) || now.GetUID() != of.GetUID()) {
		err = apierrors.NewNotFound(s.resource, of.GetName())
	}
	if err != nil {
		return none, err
	}
	return now, nil
}

// changeNewest changes the newest version of an object that this process knows, if the API server
// has no newer one.
func (s store[T]) changeNewest(ctx context.Context, of T, change func(T)) error {
	now, err := s.newest(ctx, of)
	if err != nil {
		return err
	}
	return s.change(ctx, now, change)
}

// change changes this version of an object, if the API server has no newer one.
func (s store[T]) change(ctx context.Context, before T, change func(T)) error {
	changed := before.DeepCopy()
	change(changed)
	return s.wrote(changed, s.writer.Patch(ctx, changed, locked(before)))
}

// annotate sets one annotation of an object, or removes it for nil, whatever its version.
func (s store[T]) annotate(ctx context.Context, o T, key string, value *string) error {
	changed := o.DeepCopy()
	return s.wrote(changed, s.writer.Patch(ctx, changed, annotation(o.GetUID(), key, value)))
}

// annotated sets an annotation and returns the object as the API server has it now.
func (s store[T]) annotated(ctx context.Context, o T, key, value string) (T, error) {
	if err := s.annotate(ctx, o, key, &value); err != nil {
		var none T
		return none, err
	}
	return s.newest(ctx, o)
}

// writeStatus writes what set changes in the status.
func (s store[T]) writeStatus(ctx context.Context, before T, set func(T)) error {
	changed := before.DeepCopy()
	set(changed)
	patch, err := fieldsOf(before, changed)
	if err != nil {
		return err
	}
	if err := s.writer.Status().Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("write the status of %s: %w", s.describe(before), err)
	}
	s.Wrote(changed)
	return nil
}

// release removes a finalizer from the newest version of an object that this process knows. There
// is nothing to do for an object that does not exist any more.
func (s store[T]) release(ctx context.Context, of T, finalizer string) error {
	now, err := s.newest(ctx, of)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	changed := now.DeepCopy()
	removeFinalizers(changed, finalizer)
	err = s.writer.Patch(ctx, changed, locked(now))
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("remove the finalizer of %s: %w", s.describe(now), err)
	case err != nil:
		s.ended.Add(now.GetUID(), time.Now())
		return nil
	}
	return s.wrote(changed, nil)
}

// create creates an object. One that exists already is the same: its name has the uid of the object
// that it is made for.
func (s store[T]) create(ctx context.Context, o T) error {
	made := o.DeepCopy()
	err := s.writer.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return s.wrote(made, err)
}

// delete deletes an object, and no other one of its name.
func (s store[T]) delete(ctx context.Context, o T) error {
	uid := o.GetUID()
	err := s.writer.Delete(ctx, o.DeepCopy(), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", s.describe(o), err)
	}
	s.deleted.Add(uid, time.Now())
	return nil
}

// wrote remembers an object that was written, or names it in the error.
func (s store[T]) wrote(o T, err error) error {
	if err != nil {
		return fmt.Errorf("write %s: %w", s.describe(o), err)
	}
	s.Wrote(o)
	if o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		s.ended.Add(o.GetUID(), time.Now())
	}
	return nil
}

func (s store[T]) describe(o T) string {
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", s.kind, o.GetName())
	}
	return fmt.Sprintf("%s %s/%s", s.kind, o.GetNamespace(), o.GetName())
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}
