package protection

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Claims protects claims that pods use.
type Claims struct {
	cfg       Config
	finalizer finalizer
	inquiries *inquiries
}

// NewClaims returns the controller without starting anything.
func NewClaims(cfg Config) *Claims {
	return &Claims{
		cfg:       cfg,
		finalizer: finalizer{names.FinalizerPVCProtection, cfg.Writer},
		inquiries: newInquiries(cfg),
	}
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (c *Claims) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := c.inquiries.addTo(mgr); err != nil {
		return err
	}
	return registration[protection.Claim]{
		config: c.cfg, name: NameClaims, task: c, kinds: []client.Object{&corev1.PersistentVolumeClaim{}},
		indexes: ClaimIndexes(), ended: c.ended,
		sources: []source.TypedSource[Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, changes(moves)),
			source.TypedKind(mgr.GetCache(), &corev1.Pod{}, c.podEnds()),
			source.TypedFunc[Key](c.inquiries.answerTo),
			source.TypedFunc[Key](c.fromSnapshots),
		},
	}.addTo(ctx, mgr)
}

func moves(claim *corev1.PersistentVolumeClaim) bool {
	return !protection.Rests(claim, names.FinalizerPVCProtection)
}

// Gather implements reconcile.Task.
func (c *Claims) Gather(ctx context.Context, key Key) (protection.Claim, error) {
	s, err := GatherClaim(ctx, c.cfg.Cached, c.inquiries.memory(key), key)
	if err != nil || s.Object == nil || s.Object.DeletionTimestamp == nil || c.cfg.Snapshots == nil {
		return s, err
	}
	return c.withSnapshots(ctx, s)
}

// withSnapshots adds the snapshots that are being taken of a terminating claim. The claim was read before:
// a snapshot that began while the claim was alive is in the cache, or held.
func (c *Claims) withSnapshots(ctx context.Context, s protection.Claim) (protection.Claim, error) {
	var err error
	if s.Snapshots, err = c.cfg.SnapshotUsers(ctx, c.cfg.Cached, s.Object); err != nil {
		return s, fmt.Errorf("read the snapshots of claim %s/%s: %w", s.Object.Namespace, s.Object.Name, err)
	}
	for _, vs := range c.cfg.Snapshots.Holders(s.Object.UID) {
		if !slices.Contains(s.Snapshots, vs.Name) {
			s.Snapshots = append(s.Snapshots, vs.Name)
		}
	}
	slices.Sort(s.Snapshots)
	return s, nil
}

// fromSnapshots enqueues a claim of which no snapshot is being taken any more.
func (c *Claims) fromSnapshots(_ context.Context, q queue) error {
	if c.cfg.Snapshots != nil {
		c.cfg.Snapshots.OnRelease(func(claim handoff.SourceClaim) {
			q.Add(Key{NamespacedName: claim.NamespacedName, UID: claim.UID})
		})
	}
	return nil
}

// ended drops the answer that the run used, since it is true for one moment only.
func (c *Claims) ended(key Key, s protection.Claim) {
	if s.Object == nil {
		c.inquiries.forget(key)
		c.cfg.Snapshots.ClaimGone(key.UID)
		return
	}
	if s.Answer != nil {
		c.inquiries.use(key, s.Answer.Version)
	}
}

// Decide implements reconcile.Task.
func (c *Claims) Decide(s protection.Claim, now time.Time) next {
	return protection.DecideClaim(s, now)
}

// Apply implements reconcile.Task.
func (c *Claims) Apply(ctx context.Context, s protection.Claim, a action) (next, error) {
	if _, drops := a.(protection.DropFinalizer); drops && !c.cfg.Snapshots.LetGo(s.Object.UID) {
		return protection.AwaitSnapshots(s, c.cfg.Clock.Now()), nil // one began since the claim was read
	}
	if handled, err := c.finalizer.apply(ctx, s.Object, a); handled {
		return nil, err
	}
	c.inquiries.ask(s.Object)
	return nil, nil
}

// About implements reconcile.Task.
func (c *Claims) About(key Key, s protection.Claim) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
	if s.Object != nil {
		about.Object = s.Object
	}
	return about
}
