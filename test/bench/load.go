package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// load is many requests at once.
type load struct {
	api     client.Client
	cache   ctrlcache.Cache // runs, for watching
	workers int
}

const namespace = "bench"

func (l load) begin(ctx context.Context) error {
	if err := l.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return fmt.Errorf("namespace: %w", err)
	}
	return nil
}

// each runs work for every number with the load's workers.
func (l load) each(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(l.workers)
	for i := range n {
		group.Go(func() error { return work(ctx, i) })
	}
	return group.Wait()
}

func newClaim(namespace string, i int) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("claim-%05d", i)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// follow tells of changes of a kind from now on, also across a watch that ends.
func (l load) follow(
	ctx context.Context,
	kind client.Object,
	handler toolscache.ResourceEventHandler,
) (forget func(), err error) {
	informer, err := l.cache.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(handler)
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	// it fails only for a handler that it does not know
	return func() { _ = informer.RemoveEventHandler(registration) }, nil
}

// stamps say when something was first seen, by name.
type stamps struct {
	mu    sync.Mutex
	times map[string]time.Time
}

func (s *stamps) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.times == nil {
		s.times = map[string]time.Time{}
	}
	if _, again := s.times[name]; !again {
		s.times[name] = time.Now()
	}
}

func (s *stamps) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.times)
}

// await polls, since the stamps have the exact times.
func (s *stamps) await(ctx context.Context, want int) error {
	err := wait.PollUntilContextCancel(
		ctx,
		5*time.Millisecond,
		true,
		func(context.Context) (bool, error) { return s.len() >= want, nil },
	)
	if err != nil {
		return fmt.Errorf("%d of %d: %w", s.len(), want, context.Cause(ctx))
	}
	return nil
}
