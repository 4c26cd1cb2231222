package protection

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// IndexReferrers finds the pods, with or without a node, by the claims that they name.
const IndexReferrers = "referencedClaim"

// Unused keeps up the condition Unused of bound claims. Upstream lists the pods of the namespace for each claim that the cache shows
// without a user; the condition protects nothing, so the cache is enough here, and the pod's own event corrects a stale read.
type Unused struct {
	cfg Config

	mu      sync.Mutex
	written map[types.UID]writtenCondition
}

// writtenCondition is what this process wrote, until the cache has that version of the claim.
type writtenCondition struct {
	status  corev1.ConditionStatus
	version string
}

// NewUnused returns the controller without starting anything.
func NewUnused(cfg Config) *Unused {
	return &Unused{cfg: cfg, written: map[types.UID]writtenCondition{}}
}

// AddTo registers the controller, its index and its event handlers with a manager.
func (u *Unused) AddTo(ctx context.Context, mgr manager.Manager) error {
	index := func(o client.Object) []string {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil
		}
		return protection.ClaimNames(pod)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexReferrers, index); err != nil {
		return fmt.Errorf("index pods by claim: %w", err)
	}
	return addTo(mgr, NameUnused, u.cfg.Workers, loopFor(u.cfg, NameUnused, reconcile.Task[Key, protection.Usage, action](u)),
		source.TypedKind(mgr.GetCache(), &corev1.PersistentVolumeClaim{}, changes(u.saw)),
		source.TypedKind(mgr.GetCache(), &corev1.Pod{}, u.podChanges()),
	)
}

// saw drops what was written once the cache has it, and reports whether the claim is to be looked at.
func (u *Unused) saw(claim *corev1.PersistentVolumeClaim) bool {
	u.condition(claim)
	return protection.TracksUse(claim) && protection.UnusedStatus(claim) == ""
}

// podChanges enqueues the claims of a pod that comes, ends or goes.
func (u *Unused) podChanges() handler.TypedEventHandler[*corev1.Pod, Key] {
	return handler.TypedFuncs[*corev1.Pod, Key]{
		CreateFunc: func(ctx context.Context, e event.TypedCreateEvent[*corev1.Pod], q queue) {
			u.enqueueClaims(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.TypedUpdateEvent[*corev1.Pod], q queue) {
			replaced := e.ObjectOld.UID != e.ObjectNew.UID
			if replaced {
				u.enqueueClaims(ctx, e.ObjectOld, q)
			}
			if replaced || e.ObjectOld.Status.Phase != e.ObjectNew.Status.Phase || protection.ShutDown(e.ObjectNew) {
				u.enqueueClaims(ctx, e.ObjectNew, q)
			}
		},
		DeleteFunc: func(ctx context.Context, e event.TypedDeleteEvent[*corev1.Pod], q queue) {
			u.enqueueClaims(ctx, e.Object, q)
		},
	}
}

// enqueueClaims leaves out claims that are not bound: they are enqueued when they are.
func (u *Unused) enqueueClaims(ctx context.Context, pod *corev1.Pod, q queue) {
	for _, name := range protection.ClaimNames(pod) {
		claim, err := kube.Get(ctx, u.cfg.Cached, types.NamespacedName{Namespace: pod.Namespace, Name: name}, &corev1.PersistentVolumeClaim{})
		if err == nil && claim != nil {
			enqueue(claim, protection.TracksUse, q)
		}
	}
}

// Gather implements reconcile.Task.
func (u *Unused) Gather(ctx context.Context, key Key) (protection.Usage, error) {
	claim, err := kube.Get(ctx, u.cfg.Cached, key.NamespacedName, &corev1.PersistentVolumeClaim{})
	if err != nil || claim == nil || claim.UID != key.UID {
		u.forget(key.UID)
		return protection.Usage{}, err
	}
	s := protection.Usage{Object: claim, Condition: u.condition(claim)}
	if !protection.TracksUse(claim) {
		return s, nil
	}
	if s.Volume, err = kube.Get(ctx, u.cfg.Cached, types.NamespacedName{Name: claim.Spec.VolumeName}, &corev1.PersistentVolume{}); err != nil {
		return s, err
	}
	var pods corev1.PodList
	if err := u.cfg.Cached.List(ctx, &pods, client.InNamespace(claim.Namespace), client.MatchingFields{IndexReferrers: claim.Name}); err != nil {
		return s, fmt.Errorf("read the pods that refer to claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	for i := range pods.Items {
		if protection.Refers(&pods.Items[i], claim) {
			s.Users = append(s.Users, pods.Items[i].Name)
		}
	}
	return s, nil
}

// Decide implements reconcile.Task.
func (u *Unused) Decide(s protection.Usage, now time.Time) next {
	return protection.DecideUnused(s, now)
}

// Apply implements reconcile.Task. A claim that is gone, or was created again under its name, needs no condition of this one.
func (u *Unused) Apply(ctx context.Context, s protection.Usage, a action) (next, error) {
	set, ok := a.(protection.SetUnused)
	if !ok {
		return nil, fmt.Errorf("%T is no action about the condition Unused", a)
	}
	condition, claim := set.Condition, s.Object.DeepCopy()
	condition.LastTransitionTime = metav1.NewTime(u.cfg.Clock.Now())
	err := u.cfg.Status.Patch(ctx, claim, kube.SetClaimCondition(claim.UID, condition))
	switch {
	case err == nil:
		u.remember(claim.UID, writtenCondition{condition.Status, claim.ResourceVersion})
	case apierrors.IsNotFound(err), apierrors.IsConflict(err), apierrors.IsInvalid(err): // another uid
	default:
		return nil, fmt.Errorf("write the condition Unused of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil, nil
}

// About implements reconcile.Task.
func (u *Unused) About(key Key, _ protection.Usage) reconcile.About {
	return reconcile.About{Log: []any{telemetry.KeyClaim, key.String()}}
}

// condition returns the status that was written last, by this process if the cache does not have its write yet.
func (u *Unused) condition(claim *corev1.PersistentVolumeClaim) corev1.ConditionStatus {
	u.mu.Lock()
	defer u.mu.Unlock()
	own, ok := u.written[claim.UID]
	if ok && kube.Newer(own.version, claim.ResourceVersion) {
		return own.status
	}
	delete(u.written, claim.UID)
	return protection.UnusedStatus(claim)
}

func (u *Unused) remember(uid types.UID, written writtenCondition) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.written[uid] = written
}

func (u *Unused) forget(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.written, uid)
}
