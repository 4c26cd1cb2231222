package protection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Unused keeps the condition Unused of bound claims up to date. Upstream lists the pods of the namespace
// for each claim that the cache shows without a user; the condition protects nothing, so the cache
// is enough here, and the pod's own event corrects a stale read.
type Unused struct{ cfg Config }

// NewUnused returns the controller without starting anything.
func NewUnused(cfg Config) *Unused { return &Unused{cfg} }

// AddTo registers the controller, its index and its event handlers with a manager.
func (u *Unused) AddTo(ctx context.Context, mgr manager.Manager) error {
	return registration[protection.Usage]{
		config: u.cfg, name: NameUnused, task: u, kinds: []client.Object{&corev1.PersistentVolumeClaim{}},
		indexes: UsageIndexes(),
		sources: []source.TypedSource[Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, u.claimChanges()),
			source.TypedKind(mgr.GetCache(), &corev1.Pod{}, u.podChanges()),
		},
	}.addTo(ctx, mgr)
}

// claimChanges enqueues a claim that is created, is bound now, or whose condition was changed or is not
// there, unless the condition says what the cached pods say. At the start of a process nearly all claims
// have the right condition, and a queue keeps the memory for all keys that it ever had at once. A pod that
// comes to the cache later enqueues its claims itself; its handler must not leave out a claim, since a
// worker may be about to write what was so before. A claim that is bound with the condition may be wrong:
// a pod may have come between the binder's read and its write, and found the claim unbound.
func (u *Unused) claimChanges() handler.TypedEventHandler[*corev1.PersistentVolumeClaim, Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.PersistentVolumeClaim], q queue) {
		if c.IsDeleted() || !protection.TracksUse(c.New) {
			return
		}
		status := protection.UnusedStatus(c.New)
		isNew := c.IsCreated() || !protection.TracksUse(c.Old)
		if (isNew || status == "" || status != protection.UnusedStatus(c.Old)) && !u.agrees(ctx, c.New) {
			q.Add(keyOf(c.New))
		}
	})
}

// agrees reports whether the condition of a claim is what the cached pods make it. It reports false if they
// cannot be read.
func (u *Unused) agrees(ctx context.Context, claim *corev1.PersistentVolumeClaim) bool {
	status := protection.UnusedStatus(claim)
	if status == "" {
		return false
	}
	users, err := ClaimReferrers(ctx, u.cfg.Cached, claim)
	return err == nil && protection.UnusedCondition(users).Status == status
}

// podChanges enqueues the claims of a pod that was created, has ended or was deleted.
func (u *Unused) podChanges() handler.TypedEventHandler[*corev1.Pod, Key] {
	return reconcile.OnChange(func(ctx context.Context, c reconcile.Change[*corev1.Pod], q queue) {
		if c.IsCreated() || c.IsDeleted() || c.Old.Status.Phase != c.New.Status.Phase || protection.ShutDown(c.New) {
			u.enqueueClaims(ctx, c.Object(), q)
		}
	})
}

// enqueueClaims enqueues the bound claims of a pod. The others are enqueued when they are bound.
func (u *Unused) enqueueClaims(ctx context.Context, pod *corev1.Pod, q queue) {
	for _, name := range protection.ClaimNames(pod) {
		claim, err := kube.Get(
			ctx,
			u.cfg.Cached,
			types.NamespacedName{Namespace: pod.Namespace, Name: name},
			&corev1.PersistentVolumeClaim{},
		)
		if err == nil && claim != nil {
			enqueue(claim, protection.TracksUse, q)
		}
	}
}

// Gather implements reconcile.Task.
func (u *Unused) Gather(ctx context.Context, key Key) (protection.Usage, error) {
	return GatherUsage(ctx, kube.WithoutCopies(u.cfg.Cached), key)
}

// Decide implements reconcile.Task.
func (u *Unused) Decide(s protection.Usage, now time.Time) next {
	return protection.DecideUnused(s, now)
}

// Apply implements reconcile.Task. A claim that is gone, or was created again under its name, needs
// no condition of this one.
func (u *Unused) Apply(ctx context.Context, s protection.Usage, a action) (next, error) {
	set, ok := a.(protection.SetUnused)
	if !ok {
		return nil, fmt.Errorf("%T is no action about the condition Unused", a)
	}
	condition, claim := set.Condition, s.Object.DeepCopy()
	condition.LastTransitionTime = metav1.NewTime(u.cfg.Clock.Now())
	err := u.cfg.Writer.Status().Patch(ctx, claim, kube.SetClaimCondition(claim.UID, condition))
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) { // another uid
		return nil, nil
	}
	return nil, fmt.Errorf("write the condition Unused of claim %s/%s: %w", claim.Namespace, claim.Name, err)
}

// About implements reconcile.Task.
func (u *Unused) About(key Key, s protection.Usage) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
	if s.Object != nil {
		about.Created = s.Object.CreationTimestamp.Time
	}
	return about
}
