package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/reconcile"
	rules "github.com/purser-csi/purser/internal/snapshot/rules"
)

// call makes one call to the driver. An error is one of writing the mark: then nothing is known that
// the status should say.
func (c *SidecarConfig) call(ctx context.Context, call csirpc.Call) (*rules.Failure, error) {
	call.Timeout = c.Timeout
	failure := c.Caller.Do(ctx, call)
	switch {
	case failure == nil:
		return nil, nil //nolint:nilnil // the call succeeded
	case failure.Step == csirpc.StepMark:
		return nil, failure.Cause
	case failure.Step == csirpc.StepSecret:
		err := failure.Cause
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		failure.Message = fmt.Sprintf("the secret %s cannot be read: %v", call.Secret, err)
	}
	return failure.Answer(), nil
}

// mark returns the step of a call that sets an annotation of a content; nil if the content has it.
func mark[T storable[T]](contents store[T], content T, key string, missing bool) func(context.Context) error {
	if !missing {
		return nil
	}
	return func(ctx context.Context) error { return contents.annotate(ctx, content, key, new("yes")) }
}

// recorder emits the warnings about a content that is being deleted for its VolumeSnapshot, or
// VolumeGroupSnapshot, as well: its user sees no other object.
type recorder struct{ reconcile.Recorder }

// Event implements reconcile.Recorder.
func (r recorder) Event(object runtime.Object, eventType, reason, message string) {
	r.Recorder.Event(object, eventType, reason, message)
	content, is := object.(client.Object)
	if !is || content.GetDeletionTimestamp() == nil || eventType != corev1.EventTypeWarning {
		return
	}
	switch content := object.(type) {
	case *snapshotv1.VolumeSnapshotContent:
		if ref := content.Spec.VolumeSnapshotRef; ref.UID != "" {
			r.Recorder.Event(&snapshotv1.VolumeSnapshot{ObjectMeta: ownerOf(ref)}, eventType, reason, message)
		}
	case *groupv1.VolumeGroupSnapshotContent:
		if ref := content.Spec.VolumeGroupSnapshotRef; ref.UID != "" {
			r.Recorder.Event(&groupv1.VolumeGroupSnapshot{ObjectMeta: ownerOf(ref)}, eventType, reason, message)
		}
	}
}

func ownerOf(ref corev1.ObjectReference) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
}

// askedTimes remembers when the driver last said that a snapshot is not ready. It is safe for
// concurrent use.
type askedTimes struct {
	mu    sync.Mutex
	times map[types.UID]time.Time
}

// note remembers a time; the zero time forgets.
func (a *askedTimes) note(uid types.UID, asked time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case asked.IsZero():
		delete(a.times, uid)
	case a.times == nil:
		a.times = map[types.UID]time.Time{uid: asked}
	default:
		a.times[uid] = asked
	}
}

func (a *askedTimes) last(uid types.UID) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.times[uid]
}

// answered remembers when the driver was asked about a snapshot, or group, that is not ready, and
// forgets one that is ready or that the driver does not know.
func (a *askedTimes) answered(uid types.UID, answer interface{ IsPending() bool }, now time.Time) {
	if !answer.IsPending() {
		now = time.Time{}
	}
	a.note(uid, now)
}

// inputs is what a failed attempt for a content was made from: with another class, or to delete, the
// next attempt is due at once.
func inputs[T, Class client.Object](content T, class Class) string {
	if isNil(content) {
		return ""
	}
	version := ""
	if !isNil(class) {
		version = class.GetResourceVersion()
	}
	return fmt.Sprintf("%s/%s/%t", content.GetUID(), version, content.GetDeletionTimestamp() != nil)
}
