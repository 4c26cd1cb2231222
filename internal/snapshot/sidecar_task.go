package snapshot

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task.
func (c *Sidecar) Gather(ctx context.Context, name string) (rules.ContentSnapshot, error) {
	s := rules.ContentSnapshot{ContentSettings: c.ContentSettings}
	var err error
	if s.Content, err = c.contents.get(ctx, types.NamespacedName{Name: name}); err != nil || s.Content == nil {
		return s, err
	}
	if s, err = GatherContent(ctx, c.Cached, s.Content, c.ContentSettings); err != nil {
		return s, err
	}
	s.Asked = c.asked.last(s.Content.UID)
	retry := c.retries.Get(name)
	if retry.Inputs == inputs(s.Content, s.Class) {
		s.NotBefore = retry.NotBefore
	}
	if handle := rules.HandleToDelete(s.Content); handle != "" && retry.Failed == 0 && c.removals.have(s.Content.UID) {
		s.SharingRead = true
		s.SameHandle, err = c.cachedSameHandle(ctx, s.Content, handle)
	}
	return s, err
}

// Decide implements reconcile.Task.
func (c *Sidecar) Decide(s rules.ContentSnapshot, now time.Time) rules.ContentVerdict {
	return rules.DecideContent(s, now)
}

// About implements reconcile.Task.
func (c *Sidecar) About(name string, s rules.ContentSnapshot) reconcile.About {
	about := reconcile.About{
		Log: []any{telemetry.KeySnapshotContent, name}, Inputs: func() string { return inputs(s.Content, s.Class) },
	}
	if s.Content != nil {
		about.Object, about.Users = s.Content, []runtime.Object{userOf(s.Content)}
	}
	return about
}

// Apply implements reconcile.Task.
func (c *Sidecar) Apply(
	ctx context.Context, s rules.ContentSnapshot, action rules.ContentAction,
) (rules.ContentVerdict, error) {
	switch a := action.(type) {
	case rules.ClearCreating:
		return nil, c.contents.annotate(ctx, s.Content, names.AnnSnapshotBeingCreated, nil)
	case rules.WriteContentStatus:
		return nil, c.contents.writeStatus(ctx, s.Content, func(content *snapshotv1.VolumeSnapshotContent) {
			content.Status = a.Status
		})
	case rules.ReleaseContent:
		return nil, c.contents.release(ctx, s.Content, names.FinalizerSnapshotContent)
	case rules.CreateSnapshot:
		answer, failure, err := c.create(ctx, s.Content, a)
		if err != nil {
			return nil, err
		}
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return rules.AfterCreate(s, answer, failure, c.Clock.Now()), nil
	case rules.FindSnapshot:
		answer, failure, err := c.find(ctx, a)
		if err != nil {
			return nil, err
		}
		c.asked.answered(s.Content.UID, answer, c.Clock.Now())
		return rules.AfterFind(s, answer, failure, c.Clock.Now()), nil
	case rules.ListSameHandle:
		sameHandle, err := c.listSameHandle(ctx, s.Content, a.Handle)
		if err != nil {
			return nil, err
		}
		return rules.AfterList(s, sameHandle, c.Clock.Now()), nil
	case rules.DeleteSnapshot:
		failure, err := c.delete(ctx, a)
		if err != nil {
			return nil, err
		}
		return rules.AfterDelete(s, failure), nil
	default: // of contents of the other kind
		return nil, fmt.Errorf("unknown action %T", action)
	}
}

func (c *Sidecar) create(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, a rules.CreateSnapshot,
) (answer rules.Answer, failure *rules.Failure, err error) {
	failure, err = c.call(ctx, csirpc.Call{
		Method: "CreateSnapshot", Volume: a.Name, Secret: a.Secret,
		Mark: mark(c.contents, content, names.AnnSnapshotBeingCreated, a.Mark),
		Send: func(ctx context.Context, secrets map[string]string) error {
			response, err := c.CSI.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
				SourceVolumeId: a.SourceVolume, Name: a.Name, Parameters: a.Parameters, Secrets: secrets,
			})
			if err == nil {
				answer = answerOf(response.GetSnapshot())
			}
			return err
		},
	})
	return answer, failure, err
}

func (c *Sidecar) find(
	ctx context.Context, a rules.FindSnapshot,
) (answer rules.Answer, failure *rules.Failure, err error) {
	if !c.Lists {
		return rules.Answer{Handle: a.Handle, Ready: true}, nil, nil
	}
	failure, err = c.call(ctx, csirpc.Call{
		Method: "ListSnapshots", Volume: a.Handle, Secret: a.Secret,
		Send: func(ctx context.Context, secrets map[string]string) error {
			response, err := c.CSI.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: a.Handle, Secrets: secrets})
			for _, entry := range response.GetEntries() {
				if entry.GetSnapshot().GetSnapshotId() == a.Handle {
					answer = answerOf(entry.GetSnapshot())
				}
			}
			return err
		},
	})
	return answer, failure, err
}

// delete calls the driver without its secret if that does not exist, as for volumes (D-15): the
// secret is often in the namespace of the VolumeSnapshot and deleted with it.
func (c *Sidecar) delete(ctx context.Context, a rules.DeleteSnapshot) (*rules.Failure, error) {
	return c.call(ctx, csirpc.Call{
		Method: "DeleteSnapshot", Volume: a.Handle, Secret: a.Secret, Absent: csirpc.CallWithoutSecret,
		Send: func(ctx context.Context, secrets map[string]string) error {
			_, err := c.CSI.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: a.Handle, Secrets: secrets})
			return err
		},
	})
}

func answerOf(snapshot *csi.Snapshot) rules.Answer {
	a := rules.Answer{Handle: snapshot.GetSnapshotId(), Ready: snapshot.GetReadyToUse(), Size: snapshot.GetSizeBytes()}
	if at := snapshot.GetCreationTime(); at != nil {
		a.Created = at.AsTime()
	}
	return a
}
