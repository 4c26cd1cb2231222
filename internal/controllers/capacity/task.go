package capacity

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/capacity"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

type next = verdict.Verdict[capacity.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key capacity.Key) (capacity.Snapshot, error) {
	plan := c.plan.Load()
	s := capacity.Snapshot{
		Key: key, IsPlanned: plan != nil && plan.Keys[key], Rules: c.Rules,
		FailingFor: c.answers.failingFor(key), MaxAge: c.MaxAge,
	}
	var err error
	if s.Class, err = kube.Get(ctx, c.Cached, client.ObjectKey{Name: key.Class}, &storagev1.StorageClass{}); err != nil {
		return s, err
	}
	s.Objects, err = c.objects(ctx, key)
	return s, err
}

// objects returns the objects of this publisher with a key. A write of this process that the cache
// has not seen yet takes the place of the cached object (S-10).
func (c *Controller) objects(ctx context.Context, key capacity.Key) ([]*storagev1.CSIStorageCapacity, error) {
	unseen := c.written.Unseen(func(o *storagev1.CSIStorageCapacity) bool {
		has, ok := capacity.KeyOf(o)
		return ok && has == key
	})
	var list storagev1.CSIStorageCapacityList
	if err := c.Objects.List(ctx, &list, client.MatchingFields{keyIndex: key.String()}); err != nil {
		return nil, fmt.Errorf("list capacities of %s: %w", key, err)
	}
	byName := map[string]*storagev1.CSIStorageCapacity{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	for _, own := range unseen {
		byName[own.Name] = own
	}
	var objects []*storagev1.CSIStorageCapacity
	for _, object := range byName {
		if c.Rules.Owns(object) {
			objects = append(objects, object)
		}
	}
	return objects, nil
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
		return s.AfterFailure(failure.Code.String(), failure.Words)
	}
	c.answers.succeeded(s.Key)
	return s.AfterAnswer(answer)
}

func (c *Controller) create(
	ctx context.Context, s capacity.Snapshot, object *storagev1.CSIStorageCapacity,
) (next, error) {
	object = object.DeepCopy()
	c.answers.writes(s.Key, capacity.ValuesOf(object))
	err := c.Writer.Create(ctx, object)
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
	c.wrote(object)
	return nil, nil
}

func (c *Controller) update(ctx context.Context, s capacity.Snapshot, object *storagev1.CSIStorageCapacity) error {
	object = object.DeepCopy()
	c.answers.writes(s.Key, capacity.ValuesOf(object))
	if err := c.Writer.Update(ctx, object); err != nil {
		return fmt.Errorf("update the capacity of %s: %w", s.Key, err)
	}
	c.wrote(object)
	return nil
}

func (c *Controller) wrote(object *storagev1.CSIStorageCapacity) {
	object.ManagedFields = nil
	c.written.Wrote(object)
}

// remove deletes an object with its uid and resourceVersion as preconditions.
func (c *Controller) remove(ctx context.Context, object *storagev1.CSIStorageCapacity) error {
	seen := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	if err := c.Writer.Delete(ctx, object, seen); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete capacity %s: %w", client.ObjectKeyFromObject(object), err)
	}
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
