package attacher

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
)

// volumeFinalizer removes the attacher's finalizer from PersistentVolumes that are attached nowhere,
// and are being deleted or those of an in-tree plugin that was not migrated (AT-V1 to AT-V4).
type volumeFinalizer struct{ *Controller }

func (v volumeFinalizer) addTo(mgr manager.Manager) error {
	released := func(pv *corev1.PersistentVolume, q queue) {
		if publishing.MayRelease(pv, v.Driver.Name, 0) {
			q.Add(pv.Name)
		}
	}
	volumes := handler.TypedFuncs[*corev1.PersistentVolume, string]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			released(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q queue) {
			released(e.ObjectNew, q)
		},
	}
	attachments := handler.TypedFuncs[*storagev1.VolumeAttachment, string]{
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*storagev1.VolumeAttachment], q queue) {
			for _, name := range kube.AttachedVolume(e.Object) {
				q.Add(name)
			}
		},
	}
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: NameVolumes, Workers: v.Workers, Reconciler: v, Sources: []source.TypedSource[string]{
			source.TypedFunc[string](v.start),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, volumes),
			source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttachment{}, attachments),
		},
	})
}

// start keeps the queue. The leader calls it.
func (v volumeFinalizer) start(ctx context.Context, q queue) error {
	v.memory.leadVolumes(q)
	context.AfterFunc(ctx, func() { v.memory.leadVolumes(nil) })
	return nil
}

// Reconcile implements reconcile.TypedReconciler: the rule is [publishing.MayRelease].
func (v volumeFinalizer) Reconcile(ctx context.Context, name string) (crreconcile.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reconcile.APITimeout)
	defer cancel()
	pv, err := kube.Get(ctx, v.Cached, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
	if err != nil || pv == nil {
		return crreconcile.Result{}, err
	}
	var attachments storagev1.VolumeAttachmentList
	if err := v.Cached.List(ctx, &attachments, client.MatchingFields{kube.IndexAttachmentVolume: name}); err != nil {
		return crreconcile.Result{}, err
	}
	if publishing.MayRelease(pv, v.Driver.Name, len(attachments.Items)) {
		finalizer := kube.DropFinalizer(pv, names.AttacherFinalizer(v.Driver.Name))
		err = client.IgnoreNotFound(v.Writer.Patch(ctx, pv, finalizer))
	}
	return crreconcile.Result{}, err
}
