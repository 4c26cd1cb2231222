package capacity

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capacity "github.com/purser-csi/purser/internal/capacity/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[capacity.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key capacity.Key) (capacity.Snapshot, error) {
	plan := c.plan.Load()
	s, err := Gather(ctx, c.Cached, c.objects, key, Memory{
		Rules: c.Rules, IsPlanned: plan != nil && plan.Keys[key],
		FailingFor: c.answers.failingFor(key), MaxAge: c.MaxAge,
	})
	s.Poll = c.Poll
	for _, object := range s.Objects {
		if c.objects.IsUnseen(object) {
			s.UnseenFor = c.Clock.Since(c.answers.get(key).wrote)
		}
	}
	return s, err
}

// Read implements reconcile.Reader.
func (c *Controller) Read(
	ctx context.Context, s capacity.Snapshot, refs []verdict.Ref,
) (capacity.Snapshot, error) {
	return Read(ctx, c.Live, s, refs)
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s capacity.Snapshot, _ time.Time) next { return capacity.Decide(s) }

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s capacity.Snapshot, a capacity.Action) (next, error) {
	switch a := a.(type) {
	case capacity.GetCapacity:
		return c.getCapacity(ctx, s, a.Request), nil
	case capacity.Create:
		return c.create(ctx, s, a.Object)
	case capacity.Update:
		return nil, c.update(ctx, s, a.Object)
	case capacity.Delete:
		return nil, c.remove(ctx, a.Object)
	}
	return nil, fmt.Errorf("unknown action %T", a)
}

// getCapacity calls the driver. The lock is on the key, since the call concerns no volume.
func (c *Controller) getCapacity(ctx context.Context, s capacity.Snapshot, request *csi.GetCapacityRequest) next {
	var answer *csi.GetCapacityResponse
	failure := c.calls.Do(ctx, csirpc.Call{
		Method: "GetCapacity", Volume: s.Key.String(), Timeout: c.Timeout,
		Send: func(ctx context.Context, _ map[string]string) (err error) {
			answer, err = c.CSI.GetCapacity(ctx, request)
			return err
		},
	})
	if failure != nil {
		c.answers.failed(s.Key)
		s.FailingFor = c.answers.failingFor(s.Key)
		return s.AfterFailure(failure.CodeName(), failure.Words())
	}
	c.answers.succeeded(s.Key)
	return s.AfterAnswer(answer)
}

func (c *Controller) create(
	ctx context.Context, s capacity.Snapshot, object *storagev1.CSIStorageCapacity,
) (next, error) {
	object = object.DeepCopy()
	c.answers.writes(s.Key, capacity.ValuesOf(object))
	err := c.writer.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		live, err := kube.Get(ctx, c.Live, client.ObjectKeyFromObject(object), &storagev1.CSIStorageCapacity{})
		if err != nil || live == nil {
			return nil, err // deleted since: the next run creates it
		}
		return s.AfterExists(object, live), nil
	}
	if err != nil {
		return nil, fmt.Errorf("create the capacity of %s: %w", s.Key, err)
	}
	return nil, nil
}

func (c *Controller) update(ctx context.Context, s capacity.Snapshot, object *storagev1.CSIStorageCapacity) error {
	object = object.DeepCopy()
	c.answers.writes(s.Key, capacity.ValuesOf(object))
	if err := c.writer.Update(ctx, object); err != nil {
		if apierrors.IsNotFound(err) {
			c.objects.Forget(object)
		}
		return fmt.Errorf("update the capacity of %s: %w", s.Key, err)
	}
	return nil
}

// remove deletes an object with its uid and resourceVersion as preconditions. A watch that is interrupted
// from before its creation until after its deletion delivers neither.
func (c *Controller) remove(ctx context.Context, object *storagev1.CSIStorageCapacity) error {
	seen := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := c.writer.Delete(ctx, object, seen); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete capacity %s: %w", client.ObjectKeyFromObject(object), err)
	}
	c.objects.Forget(object)
	return nil
}

// About implements reconcile.Task. Events are about the class: the object of a failing segment may
// not exist, and a driver that is down would cause thousands of events about segments.
func (c *Controller) About(key capacity.Key, s capacity.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClass, key.Class, telemetry.KeySegment, key.Segment.String()}}
	if s.Class != nil {
		about.Object = s.Class
	}
	return about
}
