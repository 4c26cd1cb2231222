package attacher

import (
	"context"
	"sync"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
)

// handedOver is what the attach-detach controller of this process has told, and what this process
// knows before its watch.
type handedOver struct {
	mu       sync.Mutex
	queue    queue             // nil before the start
	deleted  kube.EndedObjects // VolumeAttachments with a deletionTimestamp
	released kube.EndedObjects // VolumeAttachments whose last finalizer this process has removed
}

func (h *handedOver) forget(uid types.UID) {
	h.deleted.Forget(uid)
	h.released.Forget(uid)
}

func (h *handedOver) enqueue(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.queue != nil {
		h.queue.Add(name)
	}
}

// start keeps the queue, and registers the attacher with the attach-detach controller of this
// process. The leader calls it.
func (c *Controller) start(ctx context.Context, q queue) error {
	c.handed.mu.Lock()
	c.handed.queue = q
	c.handed.mu.Unlock()
	if c.InProcess != nil {
		c.InProcess.AddAttacher(c)
	}
	context.AfterFunc(ctx, func() {
		c.handed.mu.Lock()
		defer c.handed.mu.Unlock()
		c.handed.queue = nil
	})
	return nil
}

// Takes implements handoff.Attacher.
func (c *Controller) Takes(driver string) bool {
	c.handed.mu.Lock()
	defer c.handed.mu.Unlock()
	return c.handed.queue != nil && driver == c.Driver.Name
}

// Prepare implements handoff.Attacher.
func (c *Controller) Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error {
	s, err := Gather(ctx, c.Cached, va, c.memory())
	if err != nil {
		return err
	}
	prepare, ok := publishing.ForNew(s)
	if !ok {
		return nil
	}
	va.Finalizers = append(va.Finalizers, names.AttacherFinalizer(c.Driver.Name))
	metav1.SetMetaDataAnnotation(&va.ObjectMeta, names.AnnAttachedNodeID, prepare.NodeID)
	metav1.SetMetaDataAnnotation(&va.ObjectMeta, names.AnnVolumeHandle, prepare.Handle)
	return nil
}

// Tell implements handoff.Attacher.
func (c *Controller) Tell(va *storagev1.VolumeAttachment, what handoff.AttachmentWrite) {
	if what == handoff.AttachmentWritten {
		c.attachments.Wrote(va)
	}
	c.handed.mu.Lock()
	defer c.handed.mu.Unlock()
	if c.handed.queue == nil {
		return
	}
	if what == handoff.AttachmentDeleted {
		c.handed.deleted.Add(va.UID, c.Clock.Now())
	}
	c.handed.queue.Add(va.Name)
}

// wrote takes in the answer to a write, and tells the attach-detach controller of this process.
func (c *Controller) wrote(va *storagev1.VolumeAttachment) {
	if va.DeletionTimestamp == nil || len(va.Finalizers) > 0 {
		c.attachments.Wrote(va)
		c.InProcess.TellController(va, handoff.AttachmentWritten)
		return
	}
	c.handed.released.Add(va.UID, c.Clock.Now())
	c.InProcess.TellController(va, handoff.AttachmentGone)
}
