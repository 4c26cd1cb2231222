package snapshot

import (
	"context"
	"fmt"
	"reflect"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

type (
	requests interface {
		rules.Requests
		client.Object
	}
	contents interface {
		rules.Contents
		client.Object
	}
	classes interface {
		rules.Classes
		client.Object
	}
)

func blank[T client.Object]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }

// get reads an object; nil if it does not exist.
func get[T client.Object](ctx context.Context, from client.Reader, key client.ObjectKey) (T, error) {
	return kube.Get(ctx, from, key, blank[T]())
}

// list reads the objects of a kind.
func list[T client.Object](ctx context.Context, from client.Reader, options ...client.ListOption) (all []T, err error) {
	var into client.ObjectList
	switch any(blank[T]()).(type) {
	case *snapshotv1.VolumeSnapshot:
		into = &snapshotv1.VolumeSnapshotList{}
	case *snapshotv1.VolumeSnapshotContent:
		into = &snapshotv1.VolumeSnapshotContentList{}
	case *snapshotv1.VolumeSnapshotClass:
		into = &snapshotv1.VolumeSnapshotClassList{}
	case *groupv1.VolumeGroupSnapshot:
		into = &groupv1.VolumeGroupSnapshotList{}
	case *groupv1.VolumeGroupSnapshotContent:
		into = &groupv1.VolumeGroupSnapshotContentList{}
	case *groupv1.VolumeGroupSnapshotClass:
		into = &groupv1.VolumeGroupSnapshotClassList{}
	case *corev1.PersistentVolumeClaim:
		into = &corev1.PersistentVolumeClaimList{}
	case *corev1.PersistentVolume:
		into = &corev1.PersistentVolumeList{}
	}
	if err := from.List(ctx, into, options...); err != nil {
		return nil, fmt.Errorf("read the objects of the kind %s: %w", reflect.TypeFor[T]().Elem().Name(), err)
	}
	err = meta.EachListItem(into, func(o runtime.Object) error { // no item returns an error
		if item, is := o.(T); is {
			all = append(all, item)
		}
		return nil
	})
	return all, err
}

// store reads objects as new as this process's writes, and writes them.
type store struct {
	cached client.Reader
	writer client.Client // its writes are laid over cached
}

// newest returns the newest version of an object that this process knows; a NotFound error if the
// object does not exist any more or another one has its name.
func (s store) newest(ctx context.Context, of client.Object) (client.Object, error) {
	now := reflect.New(reflect.TypeOf(of).Elem()).Interface().(client.Object)
	err := s.cached.Get(ctx, client.ObjectKeyFromObject(of), now)
	if err == nil && now.GetUID() != of.GetUID() {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: kindName(of)}, of.GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", describe(of), err)
	}
	return now, nil
}

// changeNewest changes the newest version of an object that this process knows, if the API server
// has no newer one.
func (s store) changeNewest(ctx context.Context, of client.Object, change func(client.Object)) error {
	now, err := s.newest(ctx, of)
	if err != nil {
		return err
	}
	return s.change(ctx, now, change)
}

// change changes this version of an object, if the API server has no newer one.
func (s store) change(ctx context.Context, before client.Object, change func(client.Object)) error {
	changed := copyOf(before)
	change(changed)
	return wrote(changed, s.writer.Patch(ctx, changed, locked(before)))
}

// annotate sets one annotation of an object, or removes it for nil, whatever its version, and returns
// the object as the API server has it now.
func (s store) annotate(ctx context.Context, o client.Object, key string, value *string) (client.Object, error) {
	changed := copyOf(o)
	return changed, wrote(o, s.writer.Patch(ctx, changed, annotation(o.GetUID(), key, value)))
}

// writeStatus writes what set changes in the status.
func (s store) writeStatus(ctx context.Context, before client.Object, set func(any)) error {
	changed := copyOf(before)
	set(changed)
	patch, err := fieldsOf(before, changed)
	if err != nil {
		return err
	}
	return wrote(before, s.writer.Status().Patch(ctx, changed, patch))
}

// release removes finalizers from the newest version of an object that this process knows. There is
// nothing to do for an object that does not exist any more.
func (s store) release(ctx context.Context, of client.Object, finalizers ...string) error {
	return client.IgnoreNotFound(s.changeNewest(ctx, of, func(o client.Object) { removeFinalizers(o, finalizers...) }))
}

// create creates an object. One that exists already is the same: its name has the uid of the object
// that it is made for.
func (s store) create(ctx context.Context, o client.Object) error {
	err := s.writer.Create(ctx, copyOf(o))
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return wrote(o, err)
}

// delete deletes an object, and no other one of its name.
func (s store) delete(ctx context.Context, o client.Object) error {
	return wrote(o, client.IgnoreNotFound(s.writer.Delete(ctx, copyOf(o), client.Preconditions{UID: new(o.GetUID())})))
}

// deleteUnchanged deletes an object, if the API server has no newer version of it.
func (s store) deleteUnchanged(ctx context.Context, o client.Object) error {
	version := o.GetResourceVersion()
	same := client.Preconditions{UID: new(o.GetUID()), ResourceVersion: &version}
	return wrote(o, client.IgnoreNotFound(s.writer.Delete(ctx, copyOf(o), same)))
}

func copyOf(o client.Object) client.Object { return o.DeepCopyObject().(client.Object) }

// wrote names an object in the error of its write.
func wrote(o client.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write %s: %w", describe(o), err)
}

func kindName(o client.Object) string { return reflect.TypeOf(o).Elem().Name() }

func describe(o client.Object) string {
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %q", kindName(o), o.GetName())
	}
	return fmt.Sprintf("%s %s/%s", kindName(o), o.GetNamespace(), o.GetName())
}
