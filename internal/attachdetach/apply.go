package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[attachment.Action]

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s attachment.Snapshot, action attachment.Action) (next, error) {
	switch a := action.(type) {
	case attachment.Create:
		return nil, c.create(ctx, s, a)
	case attachment.Confirm:
		return c.confirm(ctx, a.Attachment)
	case attachment.List:
		return nil, c.list(ctx, s, a)
	case attachment.Unlist:
		return c.unlist(ctx, s, a)
	case attachment.Delete:
		return nil, c.delete(ctx, s, a.Attachment, a.Force)
	case attachment.Note:
		c.memory.noteUnwanted(s.Key, a.Unwanted, c.Clock.Now())
		return nil, nil
	case attachment.Requeue:
		c.memory.enqueue(a.Key)
		return nil, nil
	case attachment.Tell:
		c.tell(s.Key, a)
		return nil, nil
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

func (c *Controller) create(ctx context.Context, s attachment.Snapshot, a attachment.Create) error {
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: a.Name},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: s.Key.Driver, NodeName: a.Node},
	}
	if a.Volume == "" {
		va.Spec.Source.InlineVolumeSpec = s.Inline.Spec.DeepCopy()
	} else {
		va.Spec.Source.PersistentVolumeName = &a.Volume
	}
	if err := c.InProcess.Prepare(ctx, va); err != nil {
		return err
	}
	c.Tracing.Carry(ctx, va)
	err := c.Writer.Create(ctx, va)
	if apierrors.IsAlreadyExists(err) {
		return nil // its event enqueues the volume
	}
	if err != nil {
		return fmt.Errorf("create VolumeAttachment %q for node %q: %w", a.Name, a.Node, err)
	}
	c.measures.began(va, operationAttach, s.IsMigrated(), c.Clock.Now())
	c.memory.confirm(va.UID, true)
	c.InProcess.TellAttacher(va, handoff.AttachmentWritten)
	return nil
}

// confirm changes the resourceVersion of a VolumeAttachment by an annotation that names this
// process.
func (c *Controller) confirm(ctx context.Context, va *storagev1.VolumeAttachment) (next, error) {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": va.UID, "annotations": map[string]string{names.AnnAttachConfirmed: c.identity},
	}})
	if err != nil {
		return nil, err
	}
	changed := va.DeepCopy()
	err = c.Writer.Patch(ctx, changed, client.RawPatch(types.MergePatchType, raw))
	if apierrors.IsNotFound(err) {
		return attachment.AfterConfirm(nil), nil
	}
	if err != nil {
		return nil, fmt.Errorf("confirm VolumeAttachment %q: %w", va.Name, err)
	}
	c.memory.confirm(va.UID, true)
	return attachment.AfterConfirm(changed), nil
}

// list has the node list the volume: at once, or with the next write, which no worker waits for.
func (c *Controller) list(ctx context.Context, s attachment.Snapshot, a attachment.List) error {
	volume := s.Key.UniqueName()
	if c.status.later(
		a.Node, volume, present, func(o outcome) { c.listed(s, a, o.err) }, func() { c.memory.enqueue(s.Key) },
	) {
		return nil
	}
	_, err := c.status.set(ctx, a.Node, volume, present)
	c.listed(s, a, err)
	return err
}

// listed ends the confirmation: another process may detach a volume that is listed, so that a volume
// which is to be listed once more is confirmed again.
func (c *Controller) listed(s attachment.Snapshot, a attachment.List, err error) {
	if err == nil {
		c.measures.listed(s.Key, a.Node, c.Clock.Now())
		c.tell(s.Key, a.Then)
	}
	for _, va := range s.Attachments {
		if va.Spec.NodeName == a.Node {
			c.measures.ended(va.UID, operationAttach, c.Clock.Now())
			c.memory.confirm(va.UID, false)
		}
	}
}

// unlist deletes the VolumeAttachment only after the write of the node's list, and only if the Node
// of the answer does not report the volume in use. If that write does not begin at once, no worker waits
// for it: the key is enqueued when it is answered, and the decision then reads that Node or a newer one.
func (c *Controller) unlist(ctx context.Context, s attachment.Snapshot, a attachment.Unlist) (next, error) {
	if c.status.later(
		a.Node, s.Key.UniqueName(), absent, func(o outcome) { c.unlisted(s, a, o) }, func() { c.memory.enqueue(s.Key) },
	) {
		return nil, nil
	}
	node, err := c.status.set(ctx, a.Node, s.Key.UniqueName(), absent)
	if err != nil {
		return nil, err
	}
	if then := attachment.AfterUnlist(s, a, node); then != nil {
		return then, nil
	}
	if a.Attachment == nil || a.Attachment.DeletionTimestamp != nil {
		return nil, nil
	}
	return nil, c.delete(ctx, s, a.Attachment, a.Force)
}

// unlisted has a volume listed again that the Node of the answer reports in use. No decision is made before
// that: the VolumeAttachment of a volume that comes back to the list must not be deleted.
func (c *Controller) unlisted(s attachment.Snapshot, a attachment.Unlist, o outcome) {
	if o.err == nil && attachment.AfterUnlist(s, a, o.node) != nil {
		c.status.again(
			a.Node, s.Key.UniqueName(), present,
			func(o outcome) { c.listed(s, attachment.List{Node: a.Node}, o.err) }, func() { c.memory.enqueue(s.Key) },
		)
	}
}

func (c *Controller) delete(
	ctx context.Context, s attachment.Snapshot, va *storagev1.VolumeAttachment, force attachment.Force,
) error {
	c.measures.began(va, operationDetach, s.IsMigrated(), c.Clock.Now())
	err := c.Writer.Delete(ctx, va.DeepCopy(), client.Preconditions{UID: &va.UID, ResourceVersion: &va.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		c.memory.confirm(va.UID, false) // the deletion may have arrived, or may arrive late
		return fmt.Errorf("delete VolumeAttachment %q: %w", va.Name, err)
	}
	c.Cached.Deleted(va) // also one that another client has deleted
	c.InProcess.TellAttacher(va, handoff.AttachmentDeleted)
	if force != attachment.NotForced && c.forced != nil {
		c.forced.WithLabelValues(string(force)).Inc()
	}
	return nil
}

// tell emits an event on each pod. The teller remembers the last one about the volume.
func (c *Controller) tell(key Key, a attachment.Tell) {
	kind := corev1.EventTypeNormal
	if a.Event == attachment.Failed {
		kind = corev1.EventTypeWarning
	}
	for _, pod := range a.Pods {
		c.teller.Notify(pod, pod.UID, reconcile.Notice{
			Type: kind, Reason: string(a.Event), Message: a.Message,
			Topic: string(key.UniqueName()), State: a.State, Again: a.Again,
		})
	}
}
