package snapshotting

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/world"
)

// Gather implements reconcile.Task.
func (c *Sidecar) Gather(ctx context.Context, name string) (core.ContentSnapshot, error) {
	s := core.ContentSnapshot{ContentSettings: c.ContentSettings}
	var err error
	if s.Content, err = c.contents.get(ctx, types.NamespacedName{Name: name}); err != nil || s.Content == nil {
		return s, err
	}
	if s, err = world.SnapshotContent(ctx, c.Cached, s.Content, c.ContentSettings); err != nil {
		return s, err
	}
	s.Asked = c.asked.last(s.Content.UID)
	if retry := c.retries.Get(name); retry.Inputs == inputs(s.Content, s.Class) {
		s.NotBefore = retry.NotBefore
	}
	return s, nil
}

// Decide implements reconcile.Task.
func (c *Sidecar) Decide(s core.ContentSnapshot, now time.Time) core.ContentVerdict {
	return core.DecideContent(s, now)
}

// About implements reconcile.Task.
func (c *Sidecar) About(name string, s core.ContentSnapshot) reconcile.About {
	about := reconcile.About{
		Log: []any{telemetry.KeySnapshotContent, name}, Inputs: func() string { return inputs(s.Content, s.Class) },
	}
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
		return nil, c.contents.annotate(ctx, s.Content, names.AnnSnapshotBeingCreated, new("yes"))
	case core.ClearCreating:
		return nil, c.contents.annotate(ctx, s.Content, names.AnnSnapshotBeingCreated, nil)
	case core.WriteContentStatus:
		return nil, c.contents.writeStatus(ctx, s.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			content.Status = a.Status
		})
	case core.ReleaseContent:
		return nil, c.contents.release(ctx, s.Content, names.FinalizerSnapshotContent)
	case core.CreateSnapshot:
		answer, failure := c.create(ctx, a)
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return core.AfterCreate(s, answer, failure, c.Clock.Now()), nil
	case core.FindSnapshot:
		answer, failure := c.find(ctx, a)
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return core.AfterFind(s, answer, failure, c.Clock.Now()), nil
	case core.DeleteSnapshot:
		return core.AfterDelete(c.delete(ctx, a)), nil
	}
	return nil, fmt.Errorf("unknown action %T", action)
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
