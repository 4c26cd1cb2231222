package snapshotting

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	core "github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/csirpc"
)

// call makes one call to the driver about the snapshot, or group, of this name.
func (c *SidecarConfig) call(
	ctx context.Context,
	method, name string,
	secret types.NamespacedName,
	send func(ctx context.Context, secrets map[string]string) error,
) *core.Failure {
	failure := c.Caller.Do(ctx, csirpc.Call{
		Method:  method,
		Volume:  name,
		Timeout: c.Timeout,
		Secret:  secret,
		Send:    send,
	})
	switch {
	case failure == nil:
		return nil
	case failure.Step == csirpc.StepSecret:
		err := failure.Cause
		if ctx.Err() != nil {
			err = errors.Join(err, ctx.Err())
		}
		return &core.Failure{Message: fmt.Sprintf("the secret %s cannot be read: %v", secret, err), Unasked: true}
	case !failure.Sent():
		return &core.Failure{Code: failure.Code, Message: failure.Words, Unasked: true}
	}
	return &core.Failure{Code: failure.EffectCode(), Message: failure.Words}
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
