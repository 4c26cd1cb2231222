package attachdetach

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

func addAll(q queue, keys []Key) {
	for _, key := range keys {
		q.Add(key)
	}
}

// podEvents enqueues the volumes of a pod that gets a node, or that needs its volumes no more.
func (c *Controller) podEvents() handler.TypedEventHandler[*corev1.Pod, Key] {
	return handler.TypedFuncs[*corev1.Pod, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
			if e.Object.Spec.NodeName != "" {
				addAll(q, c.keysOfPod(ctx, e.Object))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.UID != is.UID || was.Spec.NodeName != is.Spec.NodeName ||
				attachment.NeedsVolumes(was) != attachment.NeedsVolumes(is) {
				addAll(q, c.keysOfPod(ctx, is))
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) {
			c.teller.Forget(e.Object.UID)
			addAll(q, c.keysOfPod(ctx, e.Object))
		},
	}
}

// claimEvents enqueues the volume of a claim that is bound or that changes: late binding comes
// after the pod (4.2).
func (c *Controller) claimEvents() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, Key] {
	return handler.TypedFuncs[*corev1.PersistentVolumeClaim, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.addClaim(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolumeClaim], q queue) {
			was, is := e.ObjectOld, e.ObjectNew
			if was.UID != is.UID || was.Status.Phase != is.Status.Phase || was.Spec.VolumeName != is.Spec.VolumeName {
				c.addClaim(ctx, is, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolumeClaim], q queue) {
			c.addClaim(ctx, e.Object, q)
		},
	}
}

// volumeEvents enqueues a volume that comes, changes or goes, where that concerns a pod or a node.
func (c *Controller) volumeEvents() handler.TypedEventHandler[*corev1.PersistentVolume, Key] {
	return handler.TypedFuncs[*corev1.PersistentVolume, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.PersistentVolume], q queue) {
			c.addVolume(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.PersistentVolume], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || !equality.Semantic.DeepEqual(e.ObjectOld.Spec, e.ObjectNew.Spec) {
				c.addVolume(ctx, e.ObjectOld, q)
				c.addVolume(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.PersistentVolume], q queue) {
			c.addVolume(ctx, e.Object, q)
			c.addAttachments(ctx, client.MatchingFields{kube.IndexAttachmentVolume: e.Object.Name}, q)
		},
	}
}

// addClaim enqueues the volume of a claim.
func (c *Controller) addClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, q queue) {
	if claim.Spec.VolumeName == "" {
		return
	}
	pv, err := kube.Get(ctx, c.read, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{})
	if err == nil && pv != nil {
		c.addVolume(ctx, pv, q)
	}
}

// addVolume enqueues a volume that a pod refers to, that has a VolumeAttachment, or that a node lists.
// For any other volume there is nothing to decide, and the event of the first pod, VolumeAttachment
// or node that refers to it enqueues it.
func (c *Controller) addVolume(ctx context.Context, pv *corev1.PersistentVolume, q queue) {
	if key, ok := attachment.KeyOfVolume(pv); ok && c.isInvolved(ctx, pv, key) {
		q.Add(key)
	}
}

func (c *Controller) isInvolved(ctx context.Context, pv *corev1.PersistentVolume, key Key) bool {
	one := client.Limit(1) // of a kind without own writes: one that is gone would be all that is found
	if ref := pv.Spec.ClaimRef; ref != nil && c.finds(ctx, &corev1.PodList{},
		client.InNamespace(ref.Namespace), client.MatchingFields{IndexAttachedClaim: ref.Name}, one) {
		return true
	}
	return c.finds(ctx, &corev1.PodList{}, client.MatchingFields{IndexAttachedInline: key.String()}, one) ||
		c.finds(ctx, &storagev1.VolumeAttachmentList{}, client.MatchingFields{kube.IndexAttachmentVolume: pv.Name}) ||
		c.finds(ctx, &storagev1.VolumeAttachmentList{}, client.MatchingFields{IndexAttachmentHandle: key.String()}) ||
		c.finds(ctx, &corev1.NodeList{}, client.MatchingFields{IndexListed: key.String()})
}

// finds reports whether the cache has such an object, and true where it cannot tell.
func (c *Controller) finds(ctx context.Context, list client.ObjectList, options ...client.ListOption) bool {
	err := c.read.List(ctx, list, options...)
	return err != nil || meta.LenList(list) > 0
}

// attachmentEvents enqueues the volume of each VolumeAttachment that changes: this completes every
// wait for the attacher.
func (c *Controller) attachmentEvents() handler.TypedEventHandler[*storagev1.VolumeAttachment, Key] {
	add := func(ctx context.Context, va *storagev1.VolumeAttachment, q queue) {
		c.status.changed(va.Spec.NodeName)
		if key, ok := c.keyOfAttachment(ctx, va); ok {
			q.Add(key)
		}
	}
	return handler.TypedFuncs[*storagev1.VolumeAttachment, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.VolumeAttachment], q queue) {
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.VolumeAttachment], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID {
				c.forget(e.ObjectOld)
			}
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*storagev1.VolumeAttachment], q queue) {
			c.Cached.Gone(e.Object) // before the key is enqueued, also in an overlay that is fed
			c.forget(e.Object)
			add(ctx, e.Object, q)
		},
	}
}

func (c *Controller) forget(va *storagev1.VolumeAttachment) {
	c.measures.ended(va.UID, operationDetach, c.Clock.Now())
	c.memory.confirm(va.UID, false)
}

func (c *Controller) addAttachments(ctx context.Context, matching client.MatchingFields, q queue) {
	var list storagev1.VolumeAttachmentList
	if err := c.read.List(ctx, &list, matching); err != nil {
		return // the cache has no such error once it is started
	}
	for i := range list.Items {
		if key, ok := c.keyOfAttachment(ctx, &list.Items[i]); ok {
			q.Add(key)
		}
	}
}

// nodeEvents enqueues the volumes that a node reports in use no more or that its list gained or
// lost; and all volumes of a node that comes, goes, or changes in what the rules look at.
func (c *Controller) nodeEvents() handler.TypedEventHandler[*corev1.Node, Key] {
	all := func(ctx context.Context, node *corev1.Node, q queue) {
		for _, key := range VolumesOfNode(node) {
			q.Add(key)
		}
		c.addAttachments(ctx, client.MatchingFields{kube.IndexAttachmentNode: node.Name}, q)
		var pods corev1.PodList // a pod can be seen before its node
		if err := c.read.List(ctx, &pods, client.MatchingFields{IndexAttachedPodNode: node.Name}); err != nil {
			return // the cache has no such error once it is started
		}
		for i := range pods.Items {
			addAll(q, c.keysOfPod(ctx, &pods.Items[i]))
		}
	}
	return handler.TypedFuncs[*corev1.Node, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Node], q queue) {
			all(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Node], q queue) {
			if e.ObjectOld.UID != e.ObjectNew.UID || stateOf(e.ObjectOld) != stateOf(e.ObjectNew) {
				all(ctx, e.ObjectNew, q)
			}
			addDifference(e.ObjectOld, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Node], q queue) {
			c.Cached.Gone(e.Object)
			all(ctx, e.Object, q)
		},
	}
}

type nodeState struct{ ready, managed, outOfService bool }

func stateOf(node *corev1.Node) nodeState {
	_, managed := node.Annotations[names.AnnManagedAttach]
	return nodeState{
		managed: managed,
		ready: slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}),
		outOfService: slices.ContainsFunc(
			node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == names.TaintOutOfService },
		),
	}
}

// addDifference enqueues the volumes that the node reports in use no more, that its list has lost,
// and that its list has gained: a write of a previous leader can arrive late.
func addDifference(was, is *corev1.Node, q queue) {
	before, now := volumeStates(was), volumeStates(is)
	for key, state := range before {
		if now[key] != state {
			q.Add(key)
		}
	}
	for key, state := range now {
		if _, had := before[key]; !had && state.listed {
			q.Add(key)
		}
	}
}

type volumeState struct{ listed, used bool }

// volumeStates are the volumes that a node's status names.
func volumeStates(node *corev1.Node) map[Key]volumeState {
	states := map[Key]volumeState{}
	for _, v := range node.Status.VolumesAttached {
		if driver, handle, ok := names.ParseUniqueVolumeName(string(v.Name)); ok {
			states[Key{Driver: driver, Handle: handle}] = volumeState{listed: true}
		}
	}
	for _, name := range node.Status.VolumesInUse {
		if driver, handle, ok := names.ParseUniqueVolumeName(string(name)); ok {
			key := Key{Driver: driver, Handle: handle}
			states[key] = volumeState{listed: states[key].listed, used: true}
		}
	}
	return states
}

// driverEvents enqueues the volumes of a driver that comes, goes or changes attachRequired (4.13 R9), as far
// as a pod or a node is concerned. The drivers of the first list enqueue nothing: all volumes have events of
// their own, and no key is worked on before the first list of each kind is there.
func (c *Controller) driverEvents() handler.TypedEventHandler[*storagev1.CSIDriver, Key] {
	all := func(ctx context.Context, driver string, q queue) {
		var list corev1.PersistentVolumeList
		if err := c.read.List(ctx, &list); err != nil {
			return
		}
		for i := range list.Items {
			pv := &list.Items[i]
			if key, ok := attachment.KeyOfVolume(pv); ok && key.Driver == driver && c.isInvolved(ctx, pv, key) {
				q.Add(key)
			}
		}
	}
	return handler.TypedFuncs[*storagev1.CSIDriver, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*storagev1.CSIDriver], q queue) {
			if !e.IsInInitialList {
				all(ctx, e.Object.Name, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*storagev1.CSIDriver], q queue) {
			if !equality.Semantic.DeepEqual(e.ObjectOld.Spec.AttachRequired, e.ObjectNew.Spec.AttachRequired) {
				all(ctx, e.ObjectNew.Name, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*storagev1.CSIDriver], q queue) {
			all(ctx, e.Object.Name, q)
		},
	}
}
