package protection

import (
	"context"
	"fmt"
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
)

// Classes protects VolumeAttributesClasses that claims or volumes name.
type Classes struct {
	cfg       Config
	finalizer *finalizer
}

// NewClasses returns the controller without starting anything.
func NewClasses(cfg Config) *Classes {
	return &Classes{cfg: cfg, finalizer: newFinalizer(names.FinalizerVACProtection, cfg.Writer)}
}

// AddTo registers the controller, its indexes and its event handlers with a manager.
func (c *Classes) AddTo(ctx context.Context, mgr manager.Manager) error {
	if err := kube.AddIndexes(ctx, mgr.GetFieldIndexer(), ClassIndexes()...); err != nil {
		return err
	}
	return register(mgr, c.cfg, NameClasses, task[protection.Class](c),
		source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttributesClass{}, changes(movesClass)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, userEnds[*corev1.PersistentVolumeClaim](c)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, userEnds[*corev1.PersistentVolume](c)),
	)
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
	return GatherClass(ctx, c.cfg.Cached, ClassMemory{Removed: c.finalizer.isRemoved(key.UID)}, key)
}

func (c *Classes) ended(key Key, s protection.Class) {
	if s.Object == nil {
		c.finalizer.forget(key.UID)
	}
}

// listUsers lists the claims and volumes that name the class from the API server. It stops at the
// first page that has any.
func (c *Classes) listUsers(ctx context.Context, class string) ([]string, error) {
	for _, newList := range []func() client.ObjectList{
		func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
		func() client.ObjectList { return &corev1.PersistentVolumeList{} },
	} {
		for page, err := range kube.Pages(ctx, c.cfg.Live, newList) {
			if err != nil {
				return nil, fmt.Errorf("list what uses VolumeAttributesClass %q: %w", class, err)
			}
			if users := ClassUsers(class, page); len(users) > 0 {
				return users, nil
			}
		}
	}
	return nil, nil
}

// Decide implements reconcile.Task.
func (c *Classes) Decide(s protection.Class, _ time.Time) next { return protection.DecideClass(s) }

// Apply implements reconcile.Task.
func (c *Classes) Apply(ctx context.Context, s protection.Class, a action) (next, error) {
	if handled, err := c.finalizer.apply(ctx, s.Object, a); handled {
		return nil, err
	}
	users, err := c.listUsers(ctx, s.Object.Name)
	if err != nil {
		return nil, err
	}
	return protection.AfterAsking(users, c.cfg.Clock.Now()), nil
}

// About implements reconcile.Task.
func (c *Classes) About(key Key, s protection.Class) reconcile.About {
	about := reconcile.About{Log: []any{telemetry.KeyAttributes, key.Name}}
	if s.Object != nil {
		about.Object = s.Object
	}
	return about
}
