package snapshotting

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/names"
	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/csirpc"
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
	s.Asked = c.lastAsked(s.Content.UID)
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
	c.note(s.Content.UID, asked)
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

func (c *Sidecar) create(ctx context.Context, a core.CreateSnapshot) (core.Answer, *core.Failure) {
	secrets, failure := c.secret(ctx, a.Secret)
	if failure != nil {
		return core.Answer{}, failure
	}
	ctx, end := c.begin(ctx, "CreateSnapshot")
	defer end()
	response, err := c.CSI.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{
		SourceVolumeId: a.SourceVolume, Name: a.Name, Parameters: a.Parameters, Secrets: secrets,
	})
	if err != nil {
		return core.Answer{}, failureOf(err, secrets)
	}
	return answerOf(response.GetSnapshot()), nil
}

func (c *Sidecar) find(ctx context.Context, a core.FindSnapshot) (core.Answer, *core.Failure) {
	if !c.Lists {
		return core.Answer{Handle: a.Handle, Ready: true}, nil
	}
	secrets, failure := c.secret(ctx, a.Secret)
	if failure != nil {
		return core.Answer{}, failure
	}
	ctx, end := c.begin(ctx, "ListSnapshots")
	defer end()
	response, err := c.CSI.ListSnapshots(ctx, &csi.ListSnapshotsRequest{SnapshotId: a.Handle, Secrets: secrets})
	if err != nil {
		return core.Answer{}, failureOf(err, secrets)
	}
	for _, entry := range response.GetEntries() {
		if entry.GetSnapshot().GetSnapshotId() == a.Handle {
			return answerOf(entry.GetSnapshot()), nil
		}
	}
	return core.Answer{}, nil
}

func (c *Sidecar) delete(ctx context.Context, a core.DeleteSnapshot) *core.Failure {
	secrets, failure := c.secret(ctx, a.Secret)
	if failure != nil {
		return failure
	}
	ctx, end := c.begin(ctx, "DeleteSnapshot")
	defer end()
	if _, err := c.CSI.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{
		SnapshotId: a.Handle,
		Secrets:    secrets,
	}); err != nil {
		return failureOf(err, secrets)
	}
	return nil
}

func (c *Sidecar) begin(ctx context.Context, method string) (context.Context, func()) {
	inFlight := c.InFlight.WithLabelValues(method)
	inFlight.Inc()
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	return ctx, func() {
		cancel()
		inFlight.Dec()
	}
}

func (c *Sidecar) secret(ctx context.Context, ref types.NamespacedName) (map[string]string, *core.Failure) {
	if ref.Name == "" {
		return nil, nil
	}
	values, _, err := kube.SecretValues(ctx, c.Live, ref)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		return nil, &core.Failure{Message: fmt.Sprintf("the secret %s cannot be read: %v", ref, err), Unasked: true}
	}
	return values, nil
}

func failureOf(err error, secrets map[string]string) *core.Failure {
	code, _, foreign := csirpc.Outcome(err)
	if foreign { // SN-K1: nothing is known of the call
		code = codes.Unavailable
	}
	return &core.Failure{Code: code, Message: csirpc.Words(err, secrets)}
}

func answerOf(snapshot *csi.Snapshot) core.Answer {
	a := core.Answer{Handle: snapshot.GetSnapshotId(), Ready: snapshot.GetReadyToUse(), Size: snapshot.GetSizeBytes()}
	if at := snapshot.GetCreationTime(); at != nil {
		a.Created = at.AsTime()
	}
	return a
}
