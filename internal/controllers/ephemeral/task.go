package ephemeral

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/core/ephemeral"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

type next = verdict.Verdict[ephemeral.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key ephemeral.Key) (ephemeral.Snapshot, error) {
	s := ephemeral.Snapshot{Key: key}
	pod, err := kube.Get(ctx, c.Cached, podKey(key), &corev1.Pod{})
	if err != nil || pod == nil || pod.UID != key.UID {
		return s, err
	}
	s.Pod = pod
	s.Claim, err = c.claim(ctx, c.Cached, s)
	return s, err
}

func (c *Controller) claim(ctx context.Context, from client.Reader, s ephemeral.Snapshot) (*corev1.PersistentVolumeClaim, error) {
	name := types.NamespacedName{Namespace: s.Pod.Namespace, Name: ephemeral.ClaimName(s.Pod, s.Key.Volume)}
	return kube.Get(ctx, from, name, &corev1.PersistentVolumeClaim{})
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s ephemeral.Snapshot, _ time.Time) next { return ephemeral.Decide(s) }

// Apply implements reconcile.Task. Where the claim exists after all, memory was old, and it is decided anew with the claim as it is.
func (c *Controller) Apply(ctx context.Context, s ephemeral.Snapshot, a ephemeral.Action) (next, error) {
	err := c.Writer.Create(ctx, a.Create.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		found, readErr := c.claim(ctx, c.Live, s)
		if readErr != nil {
			return nil, readErr
		}
		if found != nil {
			s.Claim = found
			return ephemeral.Decide(s), nil
		}
	}
	c.Created.Attempted(err)
	if err != nil {
		return ephemeral.AfterCreate(s, a.Create.Name, err.Error()), nil
	}
	return nil, nil
}

// About implements reconcile.Task.
func (c *Controller) About(key ephemeral.Key, s ephemeral.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyPod, podKey(key).String(), "podVolume", key.Volume}}
	if s.Pod != nil {
		about.Object = s.Pod
	}
	return about
}
