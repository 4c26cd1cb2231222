package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	name, err := c.makeNamespace(ctx, who.short)
	return &work{load: c.load, namespace: name, claims: claims, bare: who.bare, pairs: make([]pair, claims)}, err
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
	var available stamps
	see := func(in any) {
		if pv, ok := in.(*corev1.PersistentVolume); ok && pv.Status.Phase == corev1.VolumeAvailable &&
			strings.HasPrefix(pv.Name, w.namespace+"-") {
			available.add(pv.Name)
		}
	}
	forget, err := w.follow(
		ctx,
		&corev1.PersistentVolume{},
		toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }},
	)
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
	return available.await(ctx, w.claims)
}

func (w *work) volume(i int, kind volumeKind) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: w.volumeName(i)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: staticClass,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
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
	see := func(in any) {
		if claim, ok := in.(*corev1.PersistentVolumeClaim); ok && claim.Namespace == w.namespace &&
			claim.Status.Phase == corev1.ClaimBound {
			t.done.add(claim.Name)
		}
	}
	// A busy API server ends watches, so a claim may be bound when it is first seen.
	forget, err := w.follow(
		ctx,
		&corev1.PersistentVolumeClaim{},
		toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }},
	)
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
	forget, err := w.follow(
		ctx,
		&corev1.PersistentVolume{},
		toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
			if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
				in = tombstone.Obj
			}
			if pv, ok := in.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil &&
				pv.Spec.ClaimRef.Namespace == w.namespace {
				t.done.add(pv.Spec.ClaimRef.Name)
			}
		}},
	)
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
type timing struct{ asked, done stamps }

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
		t.asked.add(claim.Name)
		if err := ask(ctx, claim, &w.pairs[i]); err != nil || !w.oneByOne {
			return err
		}
		return t.done.await(ctx, i+1)
	}); err != nil {
		return course{}, err
	}
	if err := t.done.await(ctx, w.claims); err != nil {
		return course{}, fmt.Errorf("claims that are done: %w", err)
	}
	c := course{took: time.Since(began)}
	for name, at := range t.done.times {
		c.times = append(c.times, at.Sub(t.asked.times[name]))
	}
	return c, nil
}

// clear takes away claims and volumes that were there before them, and returns when no claim has
// anything to do with them any more.
func (w *work) clear(ctx context.Context) error {
	var gone stamps
	forget, err := w.follow(
		ctx,
		&corev1.PersistentVolume{},
		toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
			if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(in); err == nil &&
				strings.HasPrefix(name, w.namespace+"-") {
				gone.add(name)
			}
		}},
	)
	if err != nil {
		return err
	}
	defer forget()
	if err := w.each(ctx, w.claims, w.remove); err != nil {
		return err
	}
	return gone.await(ctx, w.claims)
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
