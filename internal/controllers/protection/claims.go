package protection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// IndexUsers finds the pods with a node by the claims that they name.
const IndexUsers = "protectedClaim"

// Claims protects claims that pods use.
type Claims struct {
	cfg       Config
	finalizer *finalizer
	inquiries *inquiries
}

// NewClaims returns the controller without starting anything.
func NewClaims(cfg Config) *Claims {
	return &Claims{cfg: cfg, finalizer: newFinalizer(names.FinalizerPVCProtection, cfg.Writer), inquiries: newInquiries(cfg)}
}

// AddTo registers the controller, its index and its wake-ups with a manager.
func (c *Claims) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexUsers, claimsWithNode); err != nil {
		return fmt.Errorf("index pods by claim: %w", err)
	}
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolumeClaim{}); err != nil {
		return err
	}
	if err := c.inquiries.addTo(mgr); err != nil {
		return err
	}
	return addTo(mgr, NameClaims, c.cfg.Workers, loopFor(c.cfg, NameClaims, reconcile.Task[Key, protection.Claim, action](c)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, changes(moves)),
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, c.podEnds()),
		source.TypedFunc[Key](c.inquiries.answerTo),
	)
}

func moves(claim *corev1.PersistentVolumeClaim) bool {
	return !protection.Rests(claim, names.FinalizerPVCProtection)
}

func claimsWithNode(o client.Object) []string {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return protection.ClaimNames(pod)
}

// Gather implements reconcile.Task.
func (c *Claims) Gather(ctx context.Context, key Key) (protection.Claim, error) {
	var s protection.Claim
	claim, err := see(ctx, c.cfg.Cached, c.finalizer, key, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return s, err
	}
	if claim == nil {
		c.inquiries.forget(key)
		return s, nil
	}
	s.Object = claim
	if claim.DeletionTimestamp == nil {
		return s, nil
	}
	var since string // memory counts from here on
	if a, ok := c.inquiries.take(key); ok {
		s.Answer, since = &protection.Answer{Users: a.users}, a.version
	}
	s.Asked = c.inquiries.askedAt(key)
	s.Users, err = c.users(ctx, claim, since)
	return s, err
}

// users are the pods in memory that use the claim and are newer than the given version. A pod that is older and is not in the answer
// of that version is gone.
func (c *Claims) users(ctx context.Context, claim *corev1.PersistentVolumeClaim, since string) ([]string, error) {
	var pods corev1.PodList
	if err := c.cfg.Cached.List(ctx, &pods, client.InNamespace(claim.Namespace), client.MatchingFields{IndexUsers: claim.Name}); err != nil {
		return nil, fmt.Errorf("read the pods that use claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	var users []string
	for i := range pods.Items {
		if pod := &pods.Items[i]; protection.Uses(pod, claim) && kube.Newer(pod.ResourceVersion, since) {
			users = append(users, pod.Name)
		}
	}
	return users, nil
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
