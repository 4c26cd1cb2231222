package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SomeVolumes returns a reader that has only the PersistentVolumes for which has reports true; for
// the others it returns NotFound. An instance that works for one node uses it, so that none of its
// decisions is about a volume of another node.
func SomeVolumes(from client.Reader, has func(*corev1.PersistentVolume) bool) client.Reader {
	return someVolumes{from, has}
}

type someVolumes struct {
	client.Reader
	has func(*corev1.PersistentVolume) bool
}

// Get implements client.Reader.
func (r someVolumes) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption,
) error {
	if err := r.Reader.Get(ctx, key, into, opts...); err != nil {
		return err
	}
	if pv, ok := into.(*corev1.PersistentVolume); ok && !r.has(pv) {
		return apierrors.NewNotFound(corev1.Resource("persistentvolumes"), key.Name)
	}
	return nil
}

// List implements client.Reader.
func (r someVolumes) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if err := r.Reader.List(ctx, into, opts...); err != nil {
		return err
	}
	if list, ok := into.(*corev1.PersistentVolumeList); ok {
		list.Items = slices.DeleteFunc(
			slices.Clone(list.Items), func(pv corev1.PersistentVolume) bool { return !r.has(&pv) },
		)
	}
	return nil
}

// TrimForNode returns a cache transform that is rest for the PersistentVolumes for which has reports
// true and for other kinds, and keeps only the metadata of the other volumes. [SomeVolumes] with
// [HasSource] leaves those out afterwards.
func TrimForNode(
	has func(*corev1.PersistentVolume) bool, rest toolscache.TransformFunc,
) toolscache.TransformFunc {
	return func(in any) (any, error) {
		if pv, ok := in.(*corev1.PersistentVolume); ok && !has(pv) {
			trimMeta(&pv.ObjectMeta)
			pv.Finalizers, pv.Spec, pv.Status = nil, corev1.PersistentVolumeSpec{}, corev1.PersistentVolumeStatus{}
			return in, nil
		}
		return rest(in)
	}
}

// HasSource reports whether a cached PersistentVolume was kept by [TrimForNode].
func HasSource(pv *corev1.PersistentVolume) bool { return pv.Spec.CSI != nil }
