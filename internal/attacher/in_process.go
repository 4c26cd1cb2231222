package attacher

import (
	"context"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// start keeps the queue, and registers the attacher with the attach-detach controller of this
// process. The leader calls it.
func (c *Controller) start(ctx context.Context, q queue) error {
	c.memory.lead(q)
	if c.InProcess != nil {
		c.InProcess.AddAttacher(c)
	}
	context.AfterFunc(ctx, func() { c.memory.lead(nil) })
	return nil
}

// Takes implements handoff.Attacher.
func (c *Controller) Takes(driver string) bool {
	return driver == c.Driver.Name && c.memory.leads()
}

// Prepare implements handoff.Attacher.
func (c *Controller) Prepare(ctx context.Context, va *storagev1.VolumeAttachment) error {
	s, err := Gather(ctx, c.Cached, va, c.Driver)
	if err != nil {
		return err
	}
	decide := func(s publishing.Snapshot) next { return publishing.Decide(s, c.Clock.Now()) }
	_, v, err := verdict.Settle(
		s, decide, func(s publishing.Snapshot, refs []verdict.Ref) (publishing.Snapshot, error) {
			return c.Read(ctx, s, refs)
		},
	)
	if err != nil {
		return err
	}
	prepare, ok := publishing.ForNew(v)
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
	if what == handoff.AttachmentDeleted {
		c.Cached.Deleted(va)
	} else {
		c.Cached.Wrote(va)
	}
	c.memory.enqueue(va.Name)
}
