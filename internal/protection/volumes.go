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

// Volumes protects PersistentVolumes that claims have.
type Volumes struct {
	cfg       Config
	finalizer finalizer
}

// NewVolumes returns the controller without starting anything.
func NewVolumes(cfg Config) *Volumes {
	return &Volumes{cfg: cfg, finalizer: finalizer{names.FinalizerPVProtection, cfg.Writer}}
}

// AddTo registers the controller and its event handlers with a manager.
func (c *Volumes) AddTo(ctx context.Context, mgr manager.Manager) error {
	wants := func(pv *corev1.PersistentVolume) bool { return !protection.Rests(pv, names.FinalizerPVProtection) }
	return registration[protection.Volume]{
		config: c.cfg, name: NameVolumes, task: c, kinds: []client.Object{&corev1.PersistentVolume{}},
		sources: []source.TypedSource[Key]{
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, changes(wants)),
		},
	}.addTo(ctx, mgr)
}

// Gather implements reconcile.Task.
func (c *Volumes) Gather(ctx context.Context, key Key) (protection.Volume, error) {
	s, err := GatherVolume(ctx, c.cfg.Cached, key)
	if c.cfg.ColocatedDrivers != nil {
		s.ColocatedDrivers = c.cfg.ColocatedDrivers()
	}
	return s, err
}

// Decide implements reconcile.Task.
func (c *Volumes) Decide(s protection.Volume, now time.Time) next {
	return protection.DecideVolume(s, now)
}

// Apply implements reconcile.Task.
func (c *Volumes) Apply(ctx context.Context, s protection.Volume, a action) (next, error) {
	return applyOnly(ctx, c.finalizer, s.Object, a)
}

// About implements reconcile.Task.
func (c *Volumes) About(key Key, s protection.Volume) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyVolume, key.Name}}
	if s.Object != nil {
		about.Object = s.Object
	}
	return about
}
