package claims

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
)

// work is what users do, and for a floor the writes that cannot be avoided.
type work struct {
	load
	namespace string
	claims    int
	oneByOne  bool  // each claim when the one before is done
	bare      *bare // nil for a contender that is a program
	pairs     []pair
}

func (c *contest) work(ctx context.Context, who contender, claims int) (*work, error) {
	c.made++
	w := &work{
		load: c.load, namespace: fmt.Sprintf("%s-%d", who.Short, c.made), claims: claims, pairs: make([]pair, claims),
	}
	if who.bare {
		w.bare = &bare{api: client.WithFieldOwner(c.api, floorWriter), apart: who.apart}
	}
	return w, c.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
}

// volumeKind says whether volumes are made for a claim or for any claim.
type volumeKind int

const (
	free volumeKind = iota
	prebound
)

func (w *work) volumeName(i int) string { return fmt.Sprintf("%s-%05d", w.namespace, i) }

// volumes makes volumes that are there before their claims, and waits until they can be bound.
func (w *work) volumes(ctx context.Context, kind volumeKind) error {
	var available runner.Times
	see := func(pv *corev1.PersistentVolume) {
		if pv.Status.Phase == corev1.VolumeAvailable && strings.HasPrefix(pv.Name, w.namespace+"-") {
			available.Add(pv.Name)
		}
	}
	forget, err := runner.Observe(ctx, w.cache, &corev1.PersistentVolume{}, see, nil)
	if err != nil {
		return err
	}
	defer forget()
	if err := w.each(ctx, w.claims, func(ctx context.Context, i int) error {
		pv := w.volume(i, kind)
		w.pairs[i].pv = pv
		if err := w.api.Create(ctx, pv); err != nil || w.bare == nil {
			return err
		}
		pv.Status.Phase = corev1.VolumeAvailable
		return w.api.Status().Update(ctx, pv)
	}); err != nil {
		return err
	}
	return available.Await(ctx, w.claims)
}

func (w *work) volume(i int, kind volumeKind) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.volumeName(i)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: staticClass,
			Capacity:                      runner.Gibibyte(),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "static.bench.purser", VolumeHandle: w.volumeName(i)},
			},
		},
	}
	if kind == prebound {
		pv.Spec.ClaimRef = &corev1.ObjectReference{
			Kind:       "PersistentVolumeClaim",
			APIVersion: "v1",
			Namespace:  w.namespace,
			Name:       newClaim(w.namespace, i).Name,
		}
	}
	return pv
}

// bind makes the claims and returns when all are Bound.
func (w *work) bind(ctx context.Context, class string) (course, error) {
	var t timing
	see := func(claim *corev1.PersistentVolumeClaim) {
		if claim.Namespace == w.namespace && claim.Status.Phase == corev1.ClaimBound {
			t.done.Add(claim.Name)
		}
	}
	// A busy API server ends watches, so a claim may be bound when it is first seen.
	forget, err := runner.Observe(ctx, w.cache, &corev1.PersistentVolumeClaim{}, see, nil)
	if err != nil {
		return course{}, err
	}
	defer forget()
	if w.bare != nil && class == contestClass {
		class = nobodysClass
	}
	return t.measure(ctx, w, func(ctx context.Context, claim *corev1.PersistentVolumeClaim, p *pair) error {
		claim.Spec.StorageClassName = &class
		if err := w.api.Create(ctx, claim); err != nil || w.bare == nil {
			return err
		}
		p.claim = claim
		return w.bare.bind(ctx, p)
	})
}

// giveUp deletes the claims and returns when their volumes are gone.
func (w *work) giveUp(ctx context.Context) (course, error) {
	var t timing
	gone := func(pv *corev1.PersistentVolume) {
		if pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace == w.namespace {
			t.done.Add(pv.Spec.ClaimRef.Name)
		}
	}
	forget, err := runner.Observe(ctx, w.cache, &corev1.PersistentVolume{}, nil, gone)
	if err != nil {
		return course{}, err
	}
	defer forget()
	return t.measure(ctx, w, func(ctx context.Context, claim *corev1.PersistentVolumeClaim, p *pair) error {
		if err := w.api.Delete(ctx, claim); err != nil || w.bare == nil {
			return err
		}
		return w.bare.reclaim(ctx, p)
	})
}

// timing is when each claim was asked for and when it was done, by name.
type timing struct{ asked, done runner.Times }

// measure asks for each claim and waits until all are done.
func (t *timing) measure(
	ctx context.Context,
	w *work,
	ask func(context.Context, *corev1.PersistentVolumeClaim, *pair) error,
) (course, error) {
	all := w.load
	if w.oneByOne {
		all.workers = 1
	}
	began := time.Now()
	if err := all.each(ctx, w.claims, func(ctx context.Context, i int) error {
		claim := newClaim(w.namespace, i)
		t.asked.Add(claim.Name)
		if err := ask(ctx, claim, &w.pairs[i]); err != nil || !w.oneByOne {
			return err
		}
		return t.done.Await(ctx, i+1)
	}); err != nil {
		return course{}, err
	}
	if err := t.done.Await(ctx, w.claims); err != nil {
		return course{}, fmt.Errorf("claims that are done: %w", err)
	}
	took := time.Since(began)
	return course{took: took, times: t.done.Since(&t.asked)}, nil
}

// clear takes away claims and volumes that were there before them, and returns when no claim has
// anything to do with them any more.
func (w *work) clear(ctx context.Context) error {
	var gone runner.Times
	forget, err := runner.Observe(ctx, w.cache, &corev1.PersistentVolume{}, nil, func(pv *corev1.PersistentVolume) {
		if strings.HasPrefix(pv.Name, w.namespace+"-") {
			gone.Add(pv.Name)
		}
	})
	if err != nil {
		return err
	}
	defer forget()
	if err := w.each(ctx, w.claims, w.remove); err != nil {
		return err
	}
	return gone.Await(ctx, w.claims)
}

func (w *work) remove(ctx context.Context, i int) error {
	claim := newClaim(w.namespace, i)
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.volumeName(i)}}
	for _, object := range []client.Object{claim, pv} {
		if err := w.api.Delete(ctx, object); err != nil {
			return err
		}
		if w.bare == nil {
			continue // the contender drops what protects it
		}
		if err := w.api.Patch(ctx, object, withoutFinalizers("")); err != nil {
			return err
		}
	}
	return nil
}

// load is many requests at once.
type load struct {
	api     client.Client
	cache   ctrlcache.Cache // for watching
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
	return runner.NewClaim(namespace, fmt.Sprintf("claim-%05d", i), nil)
}
