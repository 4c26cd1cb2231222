package populate

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	populate "github.com/purser-csi/purser/internal/populate/rules"
)

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s populate.Snapshot, a populate.Action) (next, error) {
	switch a := a.(type) {
	case populate.AddFinalizer:
		return nil, c.patch(ctx, a.Claim, kube.AddFinalizerUnchanged(a.Claim, c.Rules.Finalizer()))
	case populate.CreatePrime:
		return nil, c.create(ctx, a.Prime.DeepCopy())
	case populate.CopyNode:
		return nil, c.patch(ctx, a.Prime, annotating(a.Prime, map[string]any{
			names.AnnSelectedNode: a.Node, c.Rules.NodeAnnotation(): a.Node,
		}))
	case populate.ReturnNode:
		return nil, c.patch(ctx, a.Claim, annotating(a.Claim, map[string]any{names.AnnSelectedNode: nil}))
	case populate.CreatePod:
		return nil, c.createPod(ctx, s, a.Failed)
	case populate.CountFailure:
		c.Metrics.Ended("failed", ran(s))
		return nil, c.patch(ctx, a.Prime, annotating(a.Prime, map[string]any{
			c.Rules.AttemptsAnnotation(): strconv.Itoa(a.Failed),
		}))
	case populate.DeletePod: // its status changes all the time, and none of that keeps it
		return nil, c.delete(ctx, a.Pod, client.Preconditions{UID: &a.Pod.UID})
	case populate.Rebind:
		return nil, c.rebind(ctx, s, a)
	case populate.DeletePrime:
		return nil, c.delete(ctx, a.Prime,
			client.Preconditions{UID: &a.Prime.UID, ResourceVersion: &a.Prime.ResourceVersion})
	case populate.DropFinalizer:
		return nil, client.IgnoreNotFound(
			c.patch(ctx, a.Claim, kube.DropFinalizerUnchanged(a.Claim, c.Rules.Finalizer())))
	}
	return nil, fmt.Errorf("the action %T is not known; this is a bug of Purser, please report it", a)
}

func (c *Controller) patch(ctx context.Context, o client.Object, patch client.Patch) error {
	return c.Writer.Patch(ctx, o.DeepCopyObject().(client.Object), patch)
}

// create creates an object whose name has the uid of the claim. One that exists is from the last run, or of
// another program; the next decision tells, when the cache has it.
func (c *Controller) create(ctx context.Context, o client.Object) error {
	err := c.Writer.Create(ctx, o)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (c *Controller) delete(ctx context.Context, o client.Object, only client.Preconditions) error {
	return client.IgnoreNotFound(c.Writer.Delete(ctx, o.DeepCopyObject().(client.Object), only))
}

// createPod reads the source again: it may have changed or be gone since the decision.
func (c *Controller) createPod(ctx context.Context, s populate.Snapshot, failed int) error {
	ref, _ := c.Rules.SourceOf(s.Claim)
	object, err := c.source(ctx, ref.NamespacedName)
	if err != nil {
		return err
	}
	if object == nil {
		return fmt.Errorf("%s is gone", ref)
	}
	request, err := c.Populator.Pod(object, c.target(s.Claim))
	if err != nil {
		return err
	}
	return c.create(ctx, c.newPod(s, request, failed))
}

// rebind gives the volume to the user's claim (VP-11). The resourceVersion of the volume is the
// precondition, so it still names the prime claim.
func (c *Controller) rebind(ctx context.Context, s populate.Snapshot, a populate.Rebind) error {
	raw, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"uid": a.Volume.UID, "resourceVersion": a.Volume.ResourceVersion,
			"annotations": map[string]string{c.Rules.PopulatedFrom(): a.From},
		},
		"spec": map[string]any{"claimRef": corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: a.Claim.Namespace, Name: a.Claim.Name,
			UID: a.Claim.UID, ResourceVersion: a.Claim.ResourceVersion,
		}},
	})
	if err != nil {
		return err
	}
	if err = c.patch(ctx, a.Volume, client.RawPatch(types.StrategicMergePatchType, raw)); err != nil {
		return err
	}
	c.Metrics.Ended("succeeded", ran(s))
	return nil
}

// ran returns how long the pod took.
func ran(s populate.Snapshot) time.Duration {
	if s.Pod == nil || s.Outcome == nil {
		return 0
	}
	return s.Outcome.At.Sub(s.Pod.CreationTimestamp.Time)
}

// annotating returns a patch of annotations with the object's uid and resourceVersion as preconditions. A nil
// value removes the annotation.
func annotating(o client.Object, annotations map[string]any) client.Patch {
	raw, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "annotations": annotations,
	}})
	if err != nil {
		panic(err) // strings only
	}
	return client.RawPatch(types.MergePatchType, raw)
}
