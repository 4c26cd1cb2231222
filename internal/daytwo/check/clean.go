package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rules "github.com/purser-csi/purser/internal/daytwo/rules"
	"github.com/purser-csi/purser/internal/names"
)

// clean deletes everything, also when ctx has ended: pods, then copies and snapshots, then the
// claim, and waits until the volumes are gone.
func (r *run) clean(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), r.forDeletion())
	defer stop()
	began := time.Now()
	err := errors.Join(r.noteVolumes(ctx), r.deleteRetained(ctx))
	for _, kind := range []func() client.ObjectList{
		func() client.ObjectList { return &corev1.PodList{} },
		func() client.ObjectList { return &snapshotv1.VolumeSnapshotList{} },
		func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
	} {
		err = errors.Join(err, r.deleteAll(ctx, kind))
	}
	if left := r.volumesLeft(ctx); err == nil {
		err = left
	}
	if err != nil {
		r.report.Left = r.left(context.WithoutCancel(ctx))
		r.end(rules.StepDelete, rules.Failed, time.Since(began), err.Error())
		return
	}
	r.end(rules.StepDelete, rules.Passed, time.Since(began), fmt.Sprintf("%d volumes are gone", len(r.volumes)))
}

// noteVolumes notes the volumes of claims of the check that were bound after a step had failed.
func (r *run) noteVolumes(ctx context.Context) error {
	var claims corev1.PersistentVolumeClaimList
	if err := r.Client.List(ctx, &claims, r.own()...); err != nil {
		return err
	}
	for i := range claims.Items {
		if name := claims.Items[i].Spec.VolumeName; name != "" {
			r.volumes[name] = true
		}
	}
	return nil
}

func (r *run) own() []client.ListOption {
	return []client.ListOption{client.InNamespace(r.Namespace), client.MatchingLabels{names.LabelCheck: r.Name}}
}

// deleteRetained has the volumes of the check deleted with their claims, if the class keeps
// volumes.
func (r *run) deleteRetained(ctx context.Context) error {
	if !r.plan.Retains {
		return nil
	}
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`))
	for name := range r.volumes {
		pv := &corev1.PersistentVolume{}
		pv.Name = name
		if err := client.IgnoreNotFound(r.Client.Patch(ctx, pv, patch)); err != nil {
			return fmt.Errorf("pv/%s: its policy Retain cannot be changed to Delete: %w", name, err)
		}
	}
	return nil
}

// deleteAll deletes the objects of a kind, and waits until they are gone.
func (r *run) deleteAll(ctx context.Context, empty func() client.ObjectList) error {
	return r.until(ctx, func(ctx context.Context) (string, error) {
		list := empty()
		err := r.Client.List(ctx, list, r.own()...)
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		var left []string
		err = meta.EachListItem(list, func(o runtime.Object) error {
			object, ok := o.(client.Object)
			if !ok {
				return fmt.Errorf("%T is no API object", o)
			}
			left = append(left, fmt.Sprintf("%T %s", o, object.GetName()))
			if object.GetDeletionTimestamp() != nil {
				return nil
			}
			return client.IgnoreNotFound(r.Client.Delete(ctx, object))
		})
		return strings.Join(left, ", "), err
	})
}

// volumesLeft waits until the volumes are gone.
func (r *run) volumesLeft(ctx context.Context) error {
	return r.until(ctx, func(ctx context.Context) (string, error) {
		for name := range r.volumes {
			pv := &corev1.PersistentVolume{}
			err := r.Client.Get(ctx, client.ObjectKey{Name: name}, pv)
			if err == nil {
				return fmt.Sprintf("pv/%s is %s%s", name, pv.Status.Phase, suffix(pv.Status.Message)), nil
			}
			if !apierrors.IsNotFound(err) {
				return "", err
			}
		}
		return "", nil
	})
}

func suffix(message string) string {
	if message == "" {
		return ""
	}
	return ": " + message
}

// left names what could not be deleted.
func (r *run) left(ctx context.Context) (all []string) {
	ctx, stop := context.WithTimeout(ctx, leftTime)
	defer stop()
	for kind, list := range map[string]client.ObjectList{
		"pod": &corev1.PodList{}, "volumesnapshot": &snapshotv1.VolumeSnapshotList{},
		"pvc": &corev1.PersistentVolumeClaimList{},
	} {
		if err := r.Client.List(ctx, list, r.own()...); err != nil {
			if !meta.IsNoMatchError(err) {
				all = append(all, fmt.Sprintf(
					"perhaps %ss with the label %s=%s: %v", kind, names.LabelCheck, r.Name, err,
				))
			}
			continue
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns no error
			if object, ok := o.(client.Object); ok {
				all = append(all, fmt.Sprintf("%s/%s -n %s", kind, object.GetName(), r.Namespace))
			}
			return nil
		})
	}
	for name := range r.volumes {
		err := r.Client.Get(ctx, client.ObjectKey{Name: name}, &corev1.PersistentVolume{})
		if !apierrors.IsNotFound(err) {
			all = append(all, "pv/"+name)
		}
	}
	slices.Sort(all)
	return all
}

// leftTime bounds the reads after a failure.
const leftTime = 10 * time.Second
