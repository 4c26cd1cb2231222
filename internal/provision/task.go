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
	s := provision.Snapshot{Key: key, Driver: c.Driver, Options: c.Options}
	if err := c.Journal.Wait(ctx); err != nil {
		return s, err
	}
	if pending, ok := c.Journal.Pending(key.UID); ok {
		s.Pending = &pending
	}
	known, retry := c.memory.get(key.UID), c.retries.Get(key)
	s.HandedOver, s.Provisioned, s.Ownership = c.HandedOver.Has(key.UID), known.provisioned, known.ownership
	s.Retry = provision.RetryState{Failed: retry.Failed, NotBefore: retry.NotBefore, Inputs: retry.Inputs}
	return c.reader().Gather(ctx, s)
}

// Read implements reconcile.Reader.
func (c *Controller) Read(
	ctx context.Context, s provision.Snapshot, refs []verdict.Ref,
) (provision.Snapshot, error) {
	return c.reader().Read(ctx, s, refs)
}

func (c *Controller) reader() Reader {
	return Reader{
		Readers: kube.Readers{Cached: c.Cached, Live: secretVersionReader{c.Live, c.secrets, c.Clock}},
		Nodes:   c.survey.get, Shared: c.shared, Snapshots: c.Snapshots,
	}
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
