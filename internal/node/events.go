package node

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[mounting.Key]

// addPod enqueues the volumes of a pod: those that it wants and those that are published to it.
func (a *Agent) addPod(ctx context.Context, pod *corev1.Pod, q queue) {
	uses, _ := mounting.Resolve(pod, a.objects(ctx))
	for _, use := range uses {
		q.Add(use.Key)
	}
	for _, key := range a.records.ofPod(pod.UID) {
		q.Add(key)
	}
}

func (a *Agent) podChangesForVolumes() handler.TypedEventHandler[*corev1.Pod, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.Pod], q queue) {
		pod := c.Object()
		if pod.Spec.NodeName != a.Node {
			return
		}
		isUpdate := !c.IsCreated() && !c.IsDeleted()
		if isUpdate && c.Old.Spec.NodeName == c.New.Spec.NodeName &&
			mounting.WantsVolumes(c.Old) == mounting.WantsVolumes(c.New) {
			return
		}
		a.addPod(ctx, pod, q)
	})
}

func (a *Agent) claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		claim := c.Object()
		if c.IsDeleted() {
			a.Cached.Gone(claim) // before keys are enqueued, also in an overlay that is fed
		}
		a.addClaim(ctx, claim.Namespace, claim.Name, q)
	})
}

func (a *Agent) addClaim(ctx context.Context, namespace, name string, q queue) {
	pods, err := a.podsOfClaim(ctx, namespace, name)
	if err != nil {
		return // the cache does not fail once it is filled
	}
	for _, pod := range pods {
		a.addPod(ctx, pod, q)
		a.enqueuePod(pod)
	}
}

func (a *Agent) volumeChanges() handler.TypedEventHandler[*corev1.PersistentVolume, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.PersistentVolume], q queue) {
		isUpdate := !c.IsCreated() && !c.IsDeleted()
		if isUpdate && equality.Semantic.DeepEqual(c.Old.Spec, c.New.Spec) {
			return
		}
		if ref := c.Object().Spec.ClaimRef; ref != nil && c.Object().Spec.CSI != nil {
			a.addClaim(ctx, ref.Namespace, ref.Name, q)
		}
	})
}

// attachmentChanges enqueues the volume of a VolumeAttachment of this node.
func (a *Agent) attachmentChanges() handler.TypedEventHandler[*storagev1.VolumeAttachment, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*storagev1.VolumeAttachment], q queue) {
		va := c.Object()
		if va.Spec.NodeName != a.Node {
			return
		}
		if !c.IsDeleted() && mounting.IsExhausted(va) &&
			(c.IsCreated() || !equality.Semantic.DeepEqual(c.Old.Status.AttachError, va.Status.AttachError)) {
			a.csiNode.exhausted(va.Spec.Attacher)
		}
		if va.Spec.Source.PersistentVolumeName == nil {
			return
		}
		if pv := a.objects(ctx).Volume(*va.Spec.Source.PersistentVolumeName); pv != nil && pv.Spec.CSI != nil {
			q.Add(keyOfVolume(pv))
		}
	})
}

// nodeChanges enqueues the volumes that the node lists as attached now and did not before, and with
// other labels all of them.
func (a *Agent) nodeChanges() handler.TypedEventHandler[*corev1.Node, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.Node], q queue) {
		node := c.Object()
		if node.Name != a.Node {
			return
		}
		if c.IsDeleted() {
			a.Cached.Gone(node)
			return
		}
		a.drivers.nodeChanged()
		if c.IsCreated() {
			a.inUse.changed() // a Node that was created again lists no volumes
		}
		if c.IsCreated() || !equality.Semantic.DeepEqual(c.Old.Labels, node.Labels) {
			a.addAll(ctx, func(mounting.Key) bool { return true }, q)
			return
		}
		for _, v := range node.Status.VolumesAttached {
			if slices.Contains(c.Old.Status.VolumesAttached, v) {
				continue
			}
			if driver, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
				q.Add(mounting.Key{Driver: driver, Handle: handle})
			}
		}
	})
}

// csiNodeChanges has the registered drivers compared with the CSINode.
func (a *Agent) csiNodeChanges() handler.TypedEventHandler[*storagev1.CSINode, mounting.Key] {
	return reconcile.OnChange(func(_ context.Context, c reconcile.Change[*storagev1.CSINode], _ queue) {
		csiNode := c.Object()
		if csiNode.Name != a.Node {
			return
		}
		if c.IsDeleted() {
			a.Cached.Gone(csiNode)
		}
		a.csiNode.changed()
	})
}

func (a *Agent) driverChanges() handler.TypedEventHandler[*storagev1.CSIDriver, mounting.Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*storagev1.CSIDriver], q queue) {
		a.csiNode.changed()
		a.addAll(ctx, func(key mounting.Key) bool { return key.Driver == c.Object().Name }, q)
	})
}

// addAll enqueues all volumes of the node that match.
func (a *Agent) addAll(ctx context.Context, matches func(mounting.Key) bool, q queue) {
	keys := a.records.keys()
	pods, err := a.listPods(ctx, client.MatchingFields{indexNode: a.Node})
	if err != nil {
		return // the cache does not fail once it is filled
	}
	for _, pod := range pods {
		uses, _ := mounting.Resolve(pod, a.objects(ctx))
		for _, use := range uses {
			keys = append(keys, use.Key)
		}
	}
	for _, key := range keys {
		if matches(key) {
			q.Add(key)
		}
	}
}

// tell emits a warning on each pod. The same text about a pod is emitted again only after a while.
func (a *Agent) tell(t mounting.Tell) {
	for _, pod := range t.Pods {
		a.teller.Notify(pod, pod.UID, reconcile.Notice{
			Type: corev1.EventTypeWarning, Reason: t.Event, Message: t.Message,
			Topic: t.Event + " " + t.Message, Again: reconcile.TellAgain,
		})
	}
}
