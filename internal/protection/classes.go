package protection

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Classes protects VolumeAttributesClasses that claims or volumes name.
type Classes struct {
	cfg       Config
	finalizer finalizer
}

// NewClasses returns the controller without starting anything.
func NewClasses(cfg Config) *Classes {
	return &Classes{cfg: cfg, finalizer: finalizer{names.FinalizerVACProtection, cfg.Writer}}
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Classes) AddTo(ctx context.Context, mgr manager.Manager) error {
	return registration[protection.Class]{
		config: c.cfg, name: NameClasses, task: c, indexes: ClassIndexes(),
		kinds: []client.Object{&storagev1.VolumeAttributesClass{}},
		sources: []source.TypedSource[Key]{
			source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttributesClass{}, changes(movesClass)),
			source.TypedKind(
				mgr.GetCache(), &corev1.PersistentVolumeClaim{}, userEnds[*corev1.PersistentVolumeClaim](c),
			),
			source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, userEnds[*corev1.PersistentVolume](c)),
		},
	}.addTo(ctx, mgr)
}

func movesClass(class *storagev1.VolumeAttributesClass) bool {
	return !protection.Rests(class, names.FinalizerVACProtection)
}

// userEnds enqueues the classes that a claim or a volume does not name any more.
func userEnds[T client.Object](c *Classes) handler.TypedEventHandler[T, Key] {
	return reconcile.OnChange(func(ctx context.Context, change reconcile.Change[T], q queue) {
		if change.IsCreated() {
			return
		}
		var now []string
		if !change.IsDeleted() {
			now = AttributesClasses(change.New)
		}
		for _, name := range AttributesClasses(change.Old) {
			if !slices.Contains(now, name) {
				c.enqueueTerminating(ctx, name, q)
			}
		}
	})
}

func (c *Classes) enqueueTerminating(ctx context.Context, name string, q queue) {
	class, err := kube.Get(ctx, c.cfg.Cached, client.ObjectKey{Name: name}, &storagev1.VolumeAttributesClass{})
	if err == nil && class != nil && class.DeletionTimestamp != nil {
		enqueue(class, movesClass, q)
	}
}

// Gather implements reconcile.Task.
func (c *Classes) Gather(ctx context.Context, key Key) (protection.Class, error) {
	return GatherClass(ctx, c.cfg.Cached, key)
}

// Read implements reconcile.Reader.
func (c *Classes) Read(ctx context.Context, s protection.Class, refs []verdict.Ref) (protection.Class, error) {
	var err error
	s.LiveUsers, err = ReadUsers(ctx, c.cfg.Live, refs[0].Name)
	return s, err
}

// Decide implements reconcile.Task.
func (c *Classes) Decide(s protection.Class, now time.Time) next {
	return protection.DecideClass(s, now)
}

// Apply implements reconcile.Task.
func (c *Classes) Apply(ctx context.Context, s protection.Class, a action) (next, error) {
	return applyOnly(ctx, c.finalizer, s.Object, a)
}

// About implements reconcile.Task.
func (c *Classes) About(key Key, s protection.Class) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyAttributes, key.Name}}
	if s.Object != nil {
		about.Object = s.Object
	}
	return about
}
