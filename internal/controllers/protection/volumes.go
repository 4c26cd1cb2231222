package protection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Volumes protects PersistentVolumes that claims have.
type Volumes struct {
	cfg       Config
	finalizer *finalizer
}

// NewVolumes returns the controller without starting anything.
func NewVolumes(cfg Config) *Volumes {
	return &Volumes{cfg: cfg, finalizer: newFinalizer(names.FinalizerPVProtection, cfg.Writer)}
}

// AddTo registers the controller and its wake-ups with a manager.
func (c *Volumes) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolume{}); err != nil {
		return err
	}
	wants := func(pv *corev1.PersistentVolume) bool { return !protection.Rests(pv, names.FinalizerPVProtection) }
	return addTo(mgr, NameVolumes, c.cfg.Workers, loopFor(c.cfg, NameVolumes, reconcile.Task[Key, protection.Volume, action](c)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, changes(wants)),
	)
}

// Gather implements reconcile.Task.
func (c *Volumes) Gather(ctx context.Context, key Key) (s protection.Volume, err error) {
	if c.cfg.Together != nil {
		s.Together = c.cfg.Together()
	}
	s.Object, err = see(ctx, c.cfg.Cached, c.finalizer, key, &corev1.PersistentVolume{})
	return s, err
}

// Decide implements reconcile.Task.
func (c *Volumes) Decide(s protection.Volume, now time.Time) next {
	return protection.DecideVolume(s, now)
}

// Apply implements reconcile.Task.
func (c *Volumes) Apply(ctx context.Context, s protection.Volume, a action) (next, error) {
	if handled, err := c.finalizer.apply(ctx, s.Object, a); handled {
		return nil, err
	}
	return nil, fmt.Errorf("unknown action %T", a)
}

// About implements reconcile.Task.
func (c *Volumes) About(key Key, s protection.Volume) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyVolume, key.Name}}
	if s.Object != nil {
		about.Object = s.Object
	}
	return about
}
