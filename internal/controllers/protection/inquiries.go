package protection

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/protection"
	"github.com/purser-csi/purser/internal/reconcile"
)

// inquiries asks the API server which pods use claims, once for all claims of a namespace that wait when it is asked. It is the
// reconciler of a queue of namespaces: one is worked on by one worker at a time, and a claim that comes meanwhile puts it into the
// queue again.
type inquiries struct {
	live    client.Reader
	clock   clock.PassiveClock
	limiter workqueue.TypedRateLimiter[string]

	mu         sync.Mutex
	open       map[string]map[Key]*corev1.PersistentVolumeClaim // by namespace
	asked      map[Key]time.Time
	answers    map[Key]answer
	namespaces workqueue.TypedInterface[string]
	claims     queue
}

// answer is who used a claim at a resource version.
type answer struct {
	users   []string
	version string
}

const (
	// listWorkers bounds how many namespaces are listed at the same time.
	listWorkers = 4
	// pageSize bounds the memory of one list.
	pageSize = 500
)

func newInquiries(cfg Config) *inquiries {
	return &inquiries{
		live: cfg.Live, clock: cfg.Clock, limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](cfg.Backoff.First, cfg.Backoff.Most),
		open: map[string]map[Key]*corev1.PersistentVolumeClaim{}, asked: map[Key]time.Time{}, answers: map[Key]answer{},
	}
}

func (i *inquiries) addTo(mgr manager.Manager) error {
	ctrl, err := controller.NewTyped(NameNamespaces, mgr, controller.TypedOptions[string]{
		Reconciler: i, MaxConcurrentReconciles: listWorkers, RateLimiter: i.limiter, NewQueue: reconcile.NewQueue[string],
	})
	if err != nil {
		return fmt.Errorf("controller %s: %w", NameNamespaces, err)
	}
	if err := ctrl.Watch(source.TypedFunc[string](i.askFrom)); err != nil {
		return fmt.Errorf("controller %s: %w", NameNamespaces, err)
	}
	return nil
}

// askFrom is given the queue of namespaces; what was asked before is asked now.
func (i *inquiries) askFrom(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.namespaces = q
	for namespace := range i.open {
		q.Add(namespace)
	}
	return nil
}

// answerTo is given the queue of claims.
func (i *inquiries) answerTo(_ context.Context, q queue) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims = q
	return nil
}

// ask puts a question. The claim is woken up by the answer.
func (i *inquiries) ask(claim *corev1.PersistentVolumeClaim) {
	i.mu.Lock()
	defer i.mu.Unlock()
	key := keyOf(claim)
	i.asked[key] = i.clock.Now()
	if i.open[claim.Namespace] == nil {
		i.open[claim.Namespace] = map[Key]*corev1.PersistentVolumeClaim{}
	}
	i.open[claim.Namespace][key] = claim
	if i.namespaces != nil {
		i.namespaces.Add(claim.Namespace)
	}
}

// take is the answer, which can be used once: it is about a moment.
func (i *inquiries) take(key Key) (answer, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	a, ok := i.answers[key]
	delete(i.answers, key)
	return a, ok
}

func (i *inquiries) askedAt(key Key) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[key]
}

// forget drops what is known of a claim that is gone.
func (i *inquiries) forget(key Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.asked, key)
	delete(i.answers, key)
	delete(i.open[key.Namespace], key)
	i.closeIfEmpty(key.Namespace)
}

// closeIfEmpty drops a namespace that nobody asks about. The caller holds mu.
func (i *inquiries) closeIfEmpty(namespace string) {
	if len(i.open[namespace]) == 0 {
		delete(i.open, namespace)
	}
}

// Reconcile lists the pods of a namespace and answers those who asked before it began.
func (i *inquiries) Reconcile(ctx context.Context, namespace string) (crreconcile.Result, error) {
	asking := i.asking(namespace)
	if len(asking) == 0 {
		return crreconcile.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiBound)
	defer cancel()
	users, version, err := i.list(ctx, namespace, asking)
	if err != nil {
		return crreconcile.Result{}, fmt.Errorf("list the pods of namespace %q, which claims that are being deleted wait for: %w", namespace, err)
	}
	i.answer(namespace, asking, users, version)
	return crreconcile.Result{}, nil
}

func (i *inquiries) asking(namespace string) map[Key]*corev1.PersistentVolumeClaim {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.open[namespace])
}

func (i *inquiries) answer(namespace string, asking map[Key]*corev1.PersistentVolumeClaim, users map[Key][]string, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := func(a, b Key) int { return i.asked[a].Compare(i.asked[b]) }
	for _, key := range slices.SortedFunc(maps.Keys(asking), first) { // who asked first has waited longest
		if _, still := i.open[namespace][key]; !still {
			continue
		}
		delete(i.open[namespace], key)
		i.answers[key] = answer{users: users[key], version: version}
		if i.claims != nil {
			i.claims.Add(key)
		}
	}
	i.closeIfEmpty(namespace)
}

// list reads the pods of a namespace at the newest state; all pages are of one version.
func (i *inquiries) list(ctx context.Context, namespace string, asking map[Key]*corev1.PersistentVolumeClaim) (users map[Key][]string, version string, err error) {
	byName := map[string][]*corev1.PersistentVolumeClaim{}
	for _, claim := range asking {
		byName[claim.Name] = append(byName[claim.Name], claim)
	}
	users = map[Key][]string{}
	for more := ""; ; {
		var page corev1.PodList
		if err := i.live.List(ctx, &page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(more)); err != nil {
			return nil, "", err
		}
		version = page.ResourceVersion
		for p := range page.Items {
			note(users, byName, &page.Items[p])
		}
		if more = page.Continue; more == "" {
			return users, version, nil
		}
	}
}

func note(users map[Key][]string, byName map[string][]*corev1.PersistentVolumeClaim, pod *corev1.Pod) {
	for _, name := range protection.ClaimNames(pod) {
		for _, claim := range byName[name] {
			if protection.Uses(pod, claim) {
				users[keyOf(claim)] = append(users[keyOf(claim)], pod.Name)
			}
		}
	}
}
