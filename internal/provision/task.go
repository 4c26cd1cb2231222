package provision

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type queue = workqueue.TypedRateLimitingInterface[provision.Key]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, key provision.Key) (provision.Snapshot, error) {
	if err := c.Journal.Wait(ctx); err != nil {
		return provision.Snapshot{Key: key, Driver: c.Driver, Options: c.Options}, err
	}
	return Gather(ctx, kube.Readers{
		Cached: c.Cached, Live: secretVersionReader{c.Live, c.secrets, c.Clock},
	}, key, c.memory(key))
}

// memory returns this process's own state of a claim.
func (c *Controller) memory(key provision.Key) ClaimMemory {
	retry := c.retries.Get(key)
	m := ClaimMemory{
		Driver: c.Driver, Options: c.Options, HandedOver: c.HandedOver.Has(key.UID), Ownership: c.owned.get(key.UID),
		Retry:       provision.RetryState{Failed: retry.Failed, NotBefore: retry.NotBefore, Inputs: retry.Inputs},
		Provisioned: c.provisioned.has(key.UID), Claims: c.written, Volumes: c.Volumes, Nodes: c.survey.get,
		Shared: c.shared,
	}
	if pending, ok := c.Journal.Pending(key.UID); ok {
		m.Pending = &pending
	}
	return m
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s provision.Snapshot, now time.Time) verdict.Verdict[provision.Action] {
	return provision.Decide(s, now)
}

// About implements reconcile.Task.
func (c *Controller) About(key provision.Key, s provision.Snapshot) reconcile.About {
	about := reconcile.About{
		Log:    []any{telemetry.KeyClaim, key.String(), telemetry.KeyVolume, provision.VolumeName(key, c.Options)},
		Inputs: func() string { return provision.Inputs(s) },
	}
	if s.Claim != nil {
		about.Object = s.Claim
		about.Log = append(about.Log, telemetry.KeyClass, objects.ClaimClass(s.Claim))
		if node := s.Claim.Annotations[names.AnnSelectedNode]; node != "" {
			about.Log = append(about.Log, telemetry.KeyNode, node)
		}
		if size, ok := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage]; ok { // O-31
			about.Log = append(about.Log, telemetry.KeySize, size.String())
		}
	}
	return about
}
