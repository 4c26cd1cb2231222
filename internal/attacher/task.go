package attacher

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[publishing.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, name string) (publishing.Snapshot, error) {
	va, err := kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &storagev1.VolumeAttachment{})
	if err != nil || va == nil {
		return publishing.Snapshot{Driver: c.Driver}, err
	}
	s, err := Gather(ctx, c.Cached, va, c.Driver)
	s.Mismatch, s.MismatchDue = c.memory.mismatch(va.UID)
	failed := c.retries.Get(name)
	s.Failed = publishing.Attempt{Count: failed.Failed, Next: failed.NotBefore, Inputs: failed.Inputs}
	return s, err
}

// Read implements reconcile.Reader.
func (c *Controller) Read(
	ctx context.Context, s publishing.Snapshot, refs []verdict.Ref,
) (publishing.Snapshot, error) {
	return Read(ctx, kube.Readers{Cached: c.Cached, Live: c.Live}, s, refs)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s publishing.Snapshot, now time.Time) next {
	return publishing.Decide(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(name string, s publishing.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{"attachment", name}}
	if s.Attachment == nil {
		return about
	}
	about.Inputs = func() string { return publishing.Inputs(s.Attachment) }
	if s.Volume != nil {
		about.Log = append(about.Log, telemetry.KeyVolume, s.Volume.Name)
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s publishing.Snapshot, action publishing.Action) (next, error) {
	switch a := action.(type) {
	case publishing.ProtectVolume:
		return nil, c.protect(ctx, s.Volume)
	case publishing.Prepare:
		return c.prepare(ctx, s, a)
	case publishing.Publish:
		c.memory.tried(s.Attachment.UID)
		metadata, failure := c.publish(ctx, s, a)
		return publishing.AfterPublish(s, metadata, failure), nil
	case publishing.Unpublish:
		c.memory.tried(s.Attachment.UID)
		failure := c.unpublish(ctx, s, a)
		if failure == nil {
			c.memory.setMismatch(s.Attachment.UID, false)
		}
		return publishing.AfterUnpublish(s, failure), nil
	case publishing.Release:
		err := client.IgnoreNotFound(c.patch(ctx, s.Attachment,
			kube.DropFinalizer(s.Attachment, names.AttacherFinalizer(c.Driver.Name))))
		if err == nil {
			// A watch that was interrupted since before the attachment was created delivers no deletion.
			c.memory.enqueueVolumes(kube.AttachedVolume(s.Attachment))
		}
		return nil, err
	case publishing.MarkAttached:
		metadata := replacing(s.Attachment.Status.AttachmentMetadata, a.Metadata)
		err := c.status(ctx, s.Attachment, map[string]any{
			"attached": true, "attachmentMetadata": metadata, "attachError": nil,
		})
		if err == nil {
			c.memory.setMismatch(s.Attachment.UID, false)
		}
		return nil, err
	case publishing.MarkDetached:
		return nil, client.IgnoreNotFound(c.status(ctx, s.Attachment, map[string]any{
			"attached": false, "attachmentMetadata": nil, "detachError": nil,
		}))
	case publishing.MarkFailed:
		return nil, c.fail(ctx, s.Attachment, a)
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// protect adds the finalizer to the volume by a patch on that one entry, so that two attachments of
// one volume cannot add it twice (AT-A18).
func (c *Controller) protect(ctx context.Context, pv *corev1.PersistentVolume) error {
	changed := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: pv.Name}} // pv may be translated
	if err := c.Writer.Patch(ctx, changed, kube.AddFinalizer(
		pv.UID, names.AttacherFinalizer(c.Driver.Name),
	)); err != nil {
		return fmt.Errorf("could not add PersistentVolume finalizer: %w", err)
	}
	return nil
}

// prepare writes finalizer and annotations in one patch; other finalizers stay (AT-H4).
func (c *Controller) prepare(ctx context.Context, s publishing.Snapshot, a publishing.Prepare) (next, error) {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": s.Attachment.UID, "finalizers": []string{names.AttacherFinalizer(c.Driver.Name)},
		"annotations": map[string]string{names.AnnAttachedNodeID: a.NodeID, names.AnnVolumeHandle: a.Handle},
	}})
	if err != nil {
		return nil, err
	}
	err = c.patch(ctx, s.Attachment, client.RawPatch(types.StrategicMergePatchType, raw))
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("could not save VolumeAttachment: %w", err)
	}
	return publishing.AfterPrepare(s, err == nil), nil
}

func (c *Controller) patch(ctx context.Context, va *storagev1.VolumeAttachment, patch client.Patch) error {
	changed := va.DeepCopy()
	err := c.Writer.Patch(ctx, changed, patch)
	if err == nil {
		c.InProcess.TellController(changed)
	}
	return err
}

// replacing returns a map for a merge patch: an entry of before that now lacks is removed.
func replacing(before, now map[string]string) map[string]any {
	if len(now) == 0 {
		return nil // null
	}
	all := map[string]any{}
	for key := range before {
		all[key] = nil
	}
	for key, value := range now {
		all[key] = value
	}
	return all
}

// status writes fields of the status of this very attachment.
func (c *Controller) status(ctx context.Context, va *storagev1.VolumeAttachment, fields map[string]any) error {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": va.UID}, "status": fields})
	if err != nil {
		return err
	}
	changed := va.DeepCopy()
	if err := c.Writer.Status().Patch(ctx, changed, client.RawPatch(types.MergePatchType, raw)); err != nil {
		return fmt.Errorf("write the status of VolumeAttachment %s: %w", va.Name, err)
	}
	c.InProcess.TellController(changed)
	return nil
}

func (c *Controller) fail(ctx context.Context, va *storagev1.VolumeAttachment, a publishing.MarkFailed) error {
	field := "attachError"
	if va.DeletionTimestamp != nil {
		field = "detachError"
	}
	// A merge keeps a field that the patch leaves out, such as the code of the failure before.
	failure := map[string]any{"time": metav1.NewTime(c.Clock.Now()), "message": a.Message, "errorCode": a.Code}
	return client.IgnoreNotFound(c.status(ctx, va, map[string]any{field: failure}))
}

func (c *Controller) publish(
	ctx context.Context, s publishing.Snapshot, a publishing.Publish,
) (map[string]string, *csispec.Failure) {
	pv := s.Volume
	what, err := csispec.CapabilityOf(
		pv, csispec.CapabilityOptions{DefaultFSType: c.Driver.DefaultFSType, MultiWriters: c.Driver.MultiWriters},
	)
	if err != nil {
		return nil, &csispec.Failure{NoAnswer: true, Message: err.Error()}
	}
	request := &csi.ControllerPublishVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, NodeId: a.NodeID, VolumeCapability: what, Readonly: c.Driver.ReadOnly &&
			pv.Spec.CSI.ReadOnly,
		VolumeContext: pv.Spec.CSI.VolumeAttributes,
	}
	var response *csi.ControllerPublishVolumeResponse
	failure := c.call(ctx, "ControllerPublishVolume", s,
		func(ctx context.Context, secrets map[string]string) (err error) {
			request.Secrets = secrets
			response, err = c.CSI.ControllerPublishVolume(ctx, request)
			return err
		})
	return response.GetPublishContext(), failure
}

func (c *Controller) unpublish(ctx context.Context, s publishing.Snapshot, a publishing.Unpublish) *csispec.Failure {
	return c.call(ctx, "ControllerUnpublishVolume", s, func(ctx context.Context, secrets map[string]string) error {
		_, err := c.CSI.ControllerUnpublishVolume(
			ctx, &csi.ControllerUnpublishVolumeRequest{VolumeId: a.Handle, NodeId: a.NodeID, Secrets: secrets},
		)
		return err
	})
}

// secretOf returns the secret for a call; empty for none. A volume that is gone names none.
func secretOf(pv *corev1.PersistentVolume) types.NamespacedName {
	if pv == nil || pv.Spec.CSI == nil || pv.Spec.CSI.ControllerPublishSecretRef == nil {
		return types.NamespacedName{}
	}
	ref := pv.Spec.CSI.ControllerPublishSecretRef
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// call makes one call for the attachment. The lock is by the attachment's name: calls for one
// volume on two nodes may be in flight at once, as upstream's.
func (c *Controller) call(
	ctx context.Context, method string, s publishing.Snapshot, send func(context.Context, map[string]string) error,
) *csispec.Failure {
	ref := secretOf(s.Volume)
	failure := c.caller.Do(
		ctx,
		csirpc.Call{
			Method: method, Volume: s.Attachment.Name, Migrated: s.Migrated, Timeout: c.Timeout, Secret: ref,
			Send: send,
		},
	)
	if failure != nil && failure.Step == csirpc.StepSecret {
		failure.Message = fmt.Sprintf("failed to load secret %q: %v", ref, failure.Cause)
	}
	return failure.Answer()
}
