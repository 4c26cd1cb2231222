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
	"sigs.k8s.io/controller-runtime/pkg/manager"
	crreconcile "sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/kube"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
)

// inquiries reads from the API server which pods use claims, once for all waiting claims of a
// namespace. It is the reconciler of a queue of namespaces. A namespace has one worker at a time, and
// a claim that arrives meanwhile enqueues it again.
type inquiries struct {
	live    client.Reader
	clock   clock.PassiveClock
	limiter workqueue.TypedRateLimiter[string]

	mu         sync.Mutex
	open       map[string]map[Key]*corev1.PersistentVolumeClaim // by namespace
	asked      map[Key]time.Time
	answers    map[Key]PodAnswer
	namespaces workqueue.TypedInterface[string]
	claims     queue
}

// listWorkers is the number of namespaces that are listed at the same time.
const listWorkers = 4

func newInquiries(cfg Config) *inquiries {
	return &inquiries{
		live: cfg.Live, clock: cfg.Clock,
		limiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](
			cfg.Backoff.First, cfg.Backoff.Most),
		open: map[string]map[Key]*corev1.PersistentVolumeClaim{}, asked: map[Key]time.Time{},
		answers: map[Key]PodAnswer{},
	}
}

func (i *inquiries) addTo(mgr manager.Manager) error {
	return reconcile.Register(mgr, reconcile.Registration[string]{
		Name: NameNamespaces, Workers: listWorkers, Reconciler: i, RateLimiter: i.limiter,
		Sources: []source.TypedSource[string]{source.TypedFunc[string](i.askFrom)},
	})
}

// askFrom sets the queue of namespaces, and enqueues those with waiting claims.
func (i *inquiries) askFrom(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.namespaces = q
	for namespace := range i.open {
		q.Add(namespace)
	}
	return nil
}

// answerTo sets the queue of claims.
func (i *inquiries) answerTo(_ context.Context, q queue) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.claims = q
	return nil
}

// ask adds a claim to the next list of its namespace. The answer enqueues the claim.
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

// memory returns the process's memory of a claim. It has no effects.
func (i *inquiries) memory(key Key) Memory {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := Memory{Asked: i.asked[key]}
	if a, ok := i.answers[key]; ok {
		m.Answer = &a
	}
	return m
}

// use drops the answer that a run used. An answer of a newer version that arrived meanwhile stays.
func (i *inquiries) use(key Key, version string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answers[key].Version == version {
		delete(i.answers, key)
	}
}

// forget drops the entries of a claim that is gone.
func (i *inquiries) forget(key Key) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.asked, key)
	delete(i.answers, key)
	delete(i.open[key.Namespace], key)
	i.closeIfEmpty(key.Namespace)
}

// closeIfEmpty drops a namespace without waiting claims. The caller holds mu.
func (i *inquiries) closeIfEmpty(namespace string) {
	if len(i.open[namespace]) == 0 {
		delete(i.open, namespace)
	}
}

// Reconcile lists the pods of a namespace and answers the claims that waited when the list began.
func (i *inquiries) Reconcile(ctx context.Context, namespace string) (crreconcile.Result, error) {
	asking := i.asking(namespace)
	if len(asking) == 0 {
		return crreconcile.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, reconcile.APITimeout)
	defer cancel()
	users, version, err := i.list(ctx, namespace, asking)
	if err != nil {
		return crreconcile.Result{}, fmt.Errorf(
			"list the pods of namespace %q, which claims that are being deleted wait for: %w", namespace, err,
		)
	}
	i.answer(namespace, asking, users, version)
	return crreconcile.Result{}, nil
}

func (i *inquiries) asking(namespace string) map[Key]*corev1.PersistentVolumeClaim {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.open[namespace])
}

func (i *inquiries) answer(
	namespace string, asking map[Key]*corev1.PersistentVolumeClaim, users map[Key][]string, version string,
) {
	i.mu.Lock()
	defer i.mu.Unlock()
	first := func(a, b Key) int { return i.asked[a].Compare(i.asked[b]) }
	for _, key := range slices.SortedFunc(maps.Keys(asking), first) { // who asked first has waited longest
		if _, still := i.open[namespace][key]; !still {
			continue
		}
		delete(i.open[namespace], key)
		i.answers[key] = PodAnswer{Users: users[key], Version: version}
		if i.claims != nil {
			i.claims.Add(key)
		}
	}
	i.closeIfEmpty(namespace)
}

// list reads the pods of a namespace at the newest state; all pages are of one version.
func (i *inquiries) list(
	ctx context.Context, namespace string, asking map[Key]*corev1.PersistentVolumeClaim,
) (users map[Key][]string, version string, err error) {
	byName := map[string][]*corev1.PersistentVolumeClaim{}
	for _, claim := range asking {
		byName[claim.Name] = append(byName[claim.Name], claim)
	}
	users = map[Key][]string{}
	newPage := func() *corev1.PodList { return &corev1.PodList{} }
	for page, err := range kube.Pages(ctx, i.live, newPage, client.InNamespace(namespace)) {
		if err != nil {
			return nil, "", err
		}
		version = page.ResourceVersion
		for p := range page.Items {
			note(users, byName, &page.Items[p])
		}
	}
	return users, version, nil
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
