package protection

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// IndexAttributes finds claims and volumes by the VolumeAttributesClasses that they name.
const IndexAttributes = "attributesClass"

// Classes protects VolumeAttributesClasses that claims or volumes name.
type Classes struct {
	cfg       Config
	finalizer *finalizer
}

// NewClasses returns the controller without starting anything.
func NewClasses(cfg Config) *Classes {
	return &Classes{cfg: cfg, finalizer: newFinalizer(names.FinalizerVACProtection, cfg.Writer)}
}

// AddTo registers the controller, its indexes and its wake-ups with a manager.
func (c *Classes) AddTo(ctx context.Context, mgr manager.Manager) error {
	for _, kind := range []client.Object{&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, kind, IndexAttributes, classesOf); err != nil {
			return fmt.Errorf("index %T by VolumeAttributesClass: %w", kind, err)
		}
	}
	return addTo(mgr, NameClasses, c.cfg.Workers, loopFor(c.cfg, NameClasses, reconcile.Task[Key, protection.Class, action](c)),
		source.TypedKind(mgr.GetCache(), &storagev1.VolumeAttributesClass{}, changes(movesClass)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, userEnds[*corev1.PersistentVolumeClaim](c)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolume{}, userEnds[*corev1.PersistentVolume](c)),
	)
}

func movesClass(class *storagev1.VolumeAttributesClass) bool {
	return !protection.Rests(class, names.FinalizerVACProtection)
}

// classesOf is the index.
func classesOf(o client.Object) []string {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		return protection.ClassesOfClaim(o)
	case *corev1.PersistentVolume:
		return protection.ClassesOfVolume(o)
	}
	return nil
}

// userEnds wakes up the classes that a claim or a volume named, as soon as it names them no more.
func userEnds[T client.Object](c *Classes) handler.TypedEventHandler[T, Key] {
	return handler.TypedFuncs[T, Key]{
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[T], q queue) {
			now := classesOf(e.ObjectNew)
			for _, name := range classesOf(e.ObjectOld) {
				if !slices.Contains(now, name) {
					c.wake(ctx, name, q)
				}
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[T], q queue) {
			for _, name := range classesOf(e.Object) {
				c.wake(ctx, name, q)
			}
		},
	}
}

func (c *Classes) wake(ctx context.Context, name string, q queue) {
	class, err := kube.Get(ctx, c.cfg.Cached, client.ObjectKey{Name: name}, &storagev1.VolumeAttributesClass{})
	if err == nil && class != nil && class.DeletionTimestamp != nil {
		enqueue(class, movesClass, q)
	}
}

// Gather implements reconcile.Task.
func (c *Classes) Gather(ctx context.Context, key Key) (s protection.Class, err error) {
	s.Object, err = see(ctx, c.cfg.Cached, c.finalizer, key, &storagev1.VolumeAttributesClass{})
	if err != nil || s.Object == nil || s.Object.DeletionTimestamp == nil {
		return s, err
	}
	s.Users, err = c.remembered(ctx, key.Name)
	return s, err
}

// remembered are the claims and volumes in memory that name the class.
func (c *Classes) remembered(ctx context.Context, class string) ([]string, error) {
	var users []string
	for _, newList := range usersLists {
		list := newList()
		if err := c.cfg.Cached.List(ctx, list, client.MatchingFields{IndexAttributes: class}); err != nil {
			return nil, fmt.Errorf("read who uses VolumeAttributesClass %q: %w", class, err)
		}
		users = append(users, naming(class, list)...)
	}
	return users, nil
}

// listed are claims and volumes that name the class, as the API server has them; not all of them once there are some.
func (c *Classes) listed(ctx context.Context, class string) ([]string, error) {
	for _, newList := range usersLists {
		for more := ""; ; {
			page := newList()
			if err := c.cfg.Live.List(ctx, page, client.Limit(pageSize), client.Continue(more)); err != nil {
				return nil, fmt.Errorf("list who uses VolumeAttributesClass %q: %w", class, err)
			}
			if users := naming(class, page); len(users) > 0 {
				return users, nil
			}
			if more = page.GetContinue(); more == "" {
				break
			}
		}
	}
	return nil, nil
}

var usersLists = []func() client.ObjectList{
	func() client.ObjectList { return &corev1.PersistentVolumeClaimList{} },
	func() client.ObjectList { return &corev1.PersistentVolumeList{} },
}

func naming(class string, list client.ObjectList) []string {
	var users []string
	switch list := list.(type) {
	case *corev1.PersistentVolumeClaimList:
		for i := range list.Items {
			if claim := &list.Items[i]; slices.Contains(protection.ClassesOfClaim(claim), class) {
				users = append(users, "claim "+claim.Namespace+"/"+claim.Name)
			}
		}
	case *corev1.PersistentVolumeList:
		for i := range list.Items {
			if pv := &list.Items[i]; slices.Contains(protection.ClassesOfVolume(pv), class) {
				users = append(users, "PersistentVolume "+pv.Name)
			}
		}
	}
	return users
}

// Decide implements reconcile.Task.
func (c *Classes) Decide(s protection.Class, _ time.Time) next { return protection.DecideClass(s) }

// Apply implements reconcile.Task.
func (c *Classes) Apply(ctx context.Context, s protection.Class, a action) (next, error) {
	if handled, err := c.finalizer.apply(ctx, s.Object, a); handled {
		return nil, err
	}
	users, err := c.listed(ctx, s.Object.Name)
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
