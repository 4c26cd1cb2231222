package health

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	health "github.com/purser-csi/purser/internal/health/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

type next = verdict.Verdict[health.Action]

// Gather implements reconcile.Task.
func (c *Controller) Gather(ctx context.Context, name string) (s health.Snapshot, err error) {
	s.Driver, s.Lists = c.Driver, c.Lists
	s.Volume, err = kube.Get(ctx, c.Cached, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
	if err != nil || s.Volume == nil || s.Volume.Spec.ClaimRef == nil {
		return s, err
	}
	ref := s.Volume.Spec.ClaimRef
	s.Claim, err = kube.Get(
		ctx, c.Cached, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, &corev1.PersistentVolumeClaim{},
	)
	c.memory.fill(&s, c.CheckEvery)
	return s, err
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(s health.Snapshot, now time.Time) next { return health.Decide(s, now) }

// Apply implements reconcile.Task.
func (c *Controller) Apply(ctx context.Context, s health.Snapshot, action health.Action) (next, error) {
	switch a := action.(type) {
	case health.Take:
		return c.answered(ctx, s, a.Report), nil
	case health.Check:
		return c.check(ctx, s), nil
	case health.Store:
		return nil, c.store(ctx, s, a)
	case health.Tell:
		c.tell(s, a)
		return nil, nil
	}
	return nil, fmt.Errorf("%T is no action about the health of a volume", action)
}

// answered notes the driver's answer and returns what follows from it.
func (c *Controller) answered(ctx context.Context, s health.Snapshot, r health.Report) next {
	now := c.Clock.Now()
	before := health.Worst(s.Known.Shown)
	s.Known = c.memory.change(s.Volume.UID, func(k *health.Known) { *k = k.After(r, now) })
	c.Measures.Unknown(r.Unknown)
	if worst := health.Worst(s.Known.Shown); worst != before {
		logr.FromContextOrDiscard(ctx).Info("the health of a volume changed", telemetry.KeyVolume, s.Volume.Name,
			telemetry.KeyClaim, client.ObjectKeyFromObject(s.Claim).String(), "status", worst,
			"conditions", len(s.Known.Shown))
	}
	return health.Show(s, now)
}

// store writes the conditions into the claim. That the API server does not keep them, or does not permit
// the write, is no error: the events say them, and it is tried again later (HM-46).
func (c *Controller) store(ctx context.Context, s health.Snapshot, a health.Store) error {
	claim := s.Claim.DeepCopy()
	var status *corev1.VolumeHealthStatus
	if len(a.Conditions) > 0 {
		status = &corev1.VolumeHealthStatus{
			HealthConditions: a.Conditions, LastTransitionTime: metav1.NewTime(c.Clock.Now()),
		}
		if a.IsSameSet {
			status.LastTransitionTime = claim.Status.HealthStatus.LastTransitionTime
		}
	}
	err := c.Writer.Status().Patch(ctx, claim, kube.SetClaimHealth(claim.UID, status), client.FieldOwner(fieldOwner))
	why := ""
	switch {
	case apierrors.IsForbidden(err):
		why = "the account may not patch persistentvolumeclaims/status"
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err): // another uid
		return nil
	case err != nil:
		return fmt.Errorf("write the health of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	case status != nil && claim.Status.HealthStatus == nil:
		why = "its feature gate CSIVolumeHealth is off, or it is older than 1.37"
		c.Measures.Dropped()
	}
	if why == "" {
		now := c.Clock.Now()
		c.memory.change(s.Volume.UID, func(k *health.Known) { k.Wrote, k.WroteAt = a.Conditions, now })
		if status == nil || s.Claim.Status.HealthStatus != nil {
			return nil // the API server removes and updates a field that it has also with the gate off
		}
		if c.memory.setRefused(time.Time{}) {
			logr.FromContextOrDiscard(ctx).Info("the API server stores the health of volumes")
		}
		return nil
	}
	if c.memory.setRefused(c.Clock.Now()) {
		logr.FromContextOrDiscard(ctx).Info("the API server dropped the healthStatus field of a claim; events and "+
			"metrics have the health of volumes", "because", why)
	}
	return nil
}

// fieldOwner is upstream's field manager, which keeps its fields when the program is replaced (HM-44).
const fieldOwner = "csi-external-health-monitor-controller"

// tell emits an event on the claim. One that repeats the last is emitted again after
// [reconcile.TellAgain], as long as what it says goes on (HM-H2).
func (c *Controller) tell(s health.Snapshot, t health.Tell) {
	info := verdict.Describe(t.Finding.Reason)
	eventType := corev1.EventTypeNormal
	if info.Severity == verdict.Warning {
		eventType = corev1.EventTypeWarning
	}
	c.teller.Notify(s.Claim, s.Claim.UID, reconcile.Notice{
		Type: eventType, Reason: info.Event, Decided: t.Finding.Reason, Message: t.Finding.Text(), Topic: t.Topic,
		State: t.State, Again: reconcile.TellAgain,
	})
	if t.Finding.Reason != verdict.VolumeHealthStatusUnknown {
		isAbnormal := t.Finding.Reason != verdict.VolumeHealthRecovered
		c.memory.change(s.Volume.UID, func(k *health.Known) { k.Told = isAbnormal })
	}
}

// observe keeps what a run has read of a claim, and the end of a flapping volume's rest, which no answer
// of the driver brings if it lists.
func (c *Controller) observe(_ string, s health.Snapshot, _ next, _ time.Duration) {
	if s.Volume != nil {
		now := c.Clock.Now()
		c.memory.setStored(s.Volume.UID, len(health.Stored(s.Claim)) > 0)
		c.memory.change(s.Volume.UID, func(k *health.Known) { *k = k.Rested(now) })
	}
}

// About implements reconcile.Task. The events are actions, since a failed check is no event.
func (c *Controller) About(name string, s health.Snapshot) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyVolume, name}}
	if s.Claim != nil {
		about.Log = append(about.Log, telemetry.KeyClaim, client.ObjectKeyFromObject(s.Claim).String())
	}
	return about
}
