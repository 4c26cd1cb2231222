package snapshotting

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task.
func (c *Sidecar) Gather(ctx context.Context, name string) (core.ContentSnapshot, error) {
	s := core.ContentSnapshot{ContentSettings: c.ContentSettings}
	var err error
	if s.Content, err = c.content(ctx, name); err != nil || s.Content == nil {
		return s, err
	}
	if class := ptr.Deref(s.Content.Spec.VolumeSnapshotClassName, ""); class != "" {
		if s.Class, err = kube.Get(ctx, c.Cached, types.NamespacedName{Name: class},
			&snapshotv1.VolumeSnapshotClass{}); err != nil {
			return s, err
		}
	}
	s.Asked = c.asked.last(s.Content.UID)
	if retry := c.retries.Get(name); retry.Inputs == inputs(s) {
		s.NotBefore = retry.NotBefore
	}
	return s, nil
}

// inputs is what a failed attempt was made from: with another class, or to delete, the next attempt
// is due at once.
func inputs(s core.ContentSnapshot) string {
	if s.Content == nil {
		return ""
	}
	version := ""
	if s.Class != nil {
		version = s.Class.ResourceVersion
	}
	return fmt.Sprintf("%s/%s/%t", s.Content.UID, version, s.Content.DeletionTimestamp != nil)
}

func (c *Sidecar) content(ctx context.Context, name string) (*snapshotv1.VolumeSnapshotContent, error) {
	return read(ctx, c.Cached, c.contents, types.NamespacedName{Name: name}, &snapshotv1.VolumeSnapshotContent{})
}

// Decide implements reconcile.Task.
func (c *Sidecar) Decide(s core.ContentSnapshot, now time.Time) core.ContentVerdict {
	return core.DecideContent(s, now)
}

// About implements reconcile.Task.
func (c *Sidecar) About(name string, s core.ContentSnapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeySnapshotContent, name}, Inputs: func() string { return inputs(s) }}
	if s.Content != nil {
		about.Object = s.Content
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Sidecar) Apply(
	ctx context.Context,
	s core.ContentSnapshot,
	action core.ContentAction,
) (core.ContentVerdict, error) {
	switch a := action.(type) {
	case core.MarkCreating:
		return nil, c.patch(ctx, s.Content, annotation(s.Content.UID, names.AnnSnapshotBeingCreated, new("yes")))
	case core.ClearCreating:
		return nil, c.patch(ctx, s.Content, annotation(s.Content.UID, names.AnnSnapshotBeingCreated, nil))
	case core.WriteContentStatus:
		return nil, c.writeStatus(ctx, s, a.Status)
	case core.ReleaseContent:
		return nil, c.release(ctx, s)
	case core.CreateSnapshot:
		answer, failure := c.create(ctx, a)
		return c.noted(s, answer, core.AfterCreate(s, answer, failure, c.Clock.Now())), nil
	case core.FindSnapshot:
		answer, failure := c.find(ctx, a)
		return c.noted(s, answer, core.AfterFind(s, answer, failure, c.Clock.Now())), nil
	case core.DeleteSnapshot:
		return core.AfterDelete(c.delete(ctx, a)), nil
	}
	return nil, fmt.Errorf("unknown action %T", action)
}

// noted remembers when the driver was asked about a snapshot that is not ready.
func (c *Sidecar) noted(s core.ContentSnapshot, a core.Answer, next core.ContentVerdict) core.ContentVerdict {
	asked := time.Time{}
	if a.Handle != "" && !a.Ready {
		asked = c.Clock.Now()
	}
	c.asked.note(s.Content.UID, asked)
	return next
}

func (c *Sidecar) patch(ctx context.Context, content *snapshotv1.VolumeSnapshotContent, patch client.Patch) error {
	changed := content.DeepCopy()
	if err := c.Writer.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("write VolumeSnapshotContent %q: %w", content.Name, err)
	}
	c.contents.Wrote(changed)
	return nil
}

func (c *Sidecar) writeStatus(
	ctx context.Context,
	s core.ContentSnapshot,
	status *snapshotv1.VolumeSnapshotContentStatus,
) error {
	changed := s.Content.DeepCopy()
	changed.Status = status
	patch, err := fieldsOf(s.Content, changed)
	if err != nil {
		return err
	}
	if err := c.Writer.Status().Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("write the status of VolumeSnapshotContent %q: %w", s.Content.Name, err)
	}
	c.contents.Wrote(changed)
	return nil
}

// release removes the finalizer from the newest version that this process knows.
func (c *Sidecar) release(ctx context.Context, s core.ContentSnapshot) error {
	now, err := c.content(ctx, s.Content.Name)
	if err != nil || now == nil || now.UID != s.Content.UID {
		return err
	}
	changed := now.DeepCopy()
	removeFinalizers(changed, names.FinalizerSnapshotContent)
	if err := c.Writer.Patch(ctx, changed, locked(now)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the finalizer of VolumeSnapshotContent %q: %w", now.Name, err)
	} else if err == nil {
		c.contents.Wrote(changed)
	}
	return nil
}

func (c *Sidecar) create(ctx context.Context, a core.CreateSnapshot) (answer core.Answer, failure *core.Failure) {
	failure = c.call(ctx, "CreateSnapshot", a.Name, a.Secret, func(ctx context.Context, secrets map[string]string) error {
		response, err := c.CSI.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
			SourceVolumeId: a.SourceVolume, Name: a.Name, Parameters: a.Parameters, Secrets: secrets,
		})
		if err == nil {
			answer = answerOf(response.GetSnapshot())
		}
		return err
	})
	return answer, failure
}

func (c *Sidecar) find(ctx context.Context, a core.FindSnapshot) (answer core.Answer, failure *core.Failure) {
	if !c.Lists {
		return core.Answer{Handle: a.Handle, Ready: true}, nil
	}
	failure = c.call(ctx, "ListSnapshots", a.Handle, a.Secret, func(ctx context.Context, secrets map[string]string) error {
		response, err := c.CSI.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: a.Handle, Secrets: secrets})
		for _, entry := range response.GetEntries() {
			if entry.GetSnapshot().GetSnapshotId() == a.Handle {
				answer = answerOf(entry.GetSnapshot())
			}
		}
		return err
	})
	return answer, failure
}

func (c *Sidecar) delete(ctx context.Context, a core.DeleteSnapshot) *core.Failure {
	return c.call(ctx, "DeleteSnapshot", a.Handle, a.Secret, func(ctx context.Context, secrets map[string]string) error {
		_, err := c.CSI.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: a.Handle, Secrets: secrets})
		return err
	})
}

func answerOf(snapshot *csi.Snapshot) core.Answer {
	a := core.Answer{Handle: snapshot.GetSnapshotId(), Ready: snapshot.GetReadyToUse(), Size: snapshot.GetSizeBytes()}
	if at := snapshot.GetCreationTime(); at != nil {
		a.Created = at.AsTime()
	}
	return a
}
