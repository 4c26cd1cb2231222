package protection

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
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

// AddTo registers the controller and its event handlers with a manager.
func (c *Volumes) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.Prewarm(ctx, mgr.GetCache(), &corev1.PersistentVolume{}); err != nil {
		return err
	}
	wants := func(pv *corev1.PersistentVolume) bool { return !protection.Rests(pv, names.FinalizerPVProtection) }
	return register(mgr, c.cfg, NameVolumes, task[protection.Volume](c),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, changes(wants)),
	)
}

// Gather implements reconcile.Task.
func (c *Volumes) Gather(ctx context.Context, key Key) (protection.Volume, error) {
	memory := VolumeMemory{Removed: c.finalizer.isRemoved(key.UID)}
	if c.cfg.ColocatedDrivers != nil {
		memory.ColocatedDrivers = c.cfg.ColocatedDrivers()
	}
	return GatherVolume(ctx, c.cfg.Cached, memory, key)
}

func (c *Volumes) ended(key Key, s protection.Volume) {
	if s.Object == nil {
		c.finalizer.forget(key.UID)
	}
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
