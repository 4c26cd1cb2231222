package protection

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

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
		},
	}.addTo(ctx, mgr)
}

func moves(claim *corev1.PersistentVolumeClaim) bool {
	return !protection.Rests(claim, names.FinalizerPVCProtection)
}

// Gather implements reconcile.Task.
func (c *Claims) Gather(ctx context.Context, key Key) (protection.Claim, error) {
	return GatherClaim(ctx, c.cfg.Cached, c.inquiries.memory(key), key)
}

// ended drops the answer that the run used, since it is true for one moment only.
func (c *Claims) ended(key Key, s protection.Claim) {
	if s.Object == nil {
		c.inquiries.forget(key)
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
