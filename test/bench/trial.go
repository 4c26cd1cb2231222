package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// trial is one thing that the contenders do.
type trial struct {
	name    string
	prepare func(context.Context, *work) error
	do      func(context.Context, *work) (map[string]time.Duration, time.Duration, error)
	clear   func(context.Context, *work) error
}

const staticClass = "static"

// trials are in an order in which one leaves what the next needs.
func trials() []trial {
	static := func(name string, kind volumeKind) trial {
		return trial{
			name:    name,
			prepare: func(ctx context.Context, w *work) error { return w.volumes(ctx, kind) },
			do: func(ctx context.Context, w *work) (map[string]time.Duration, time.Duration, error) {
				return w.bind(ctx, staticClass)
			},
			clear: func(ctx context.Context, w *work) error { return w.clear(ctx) },
		}
	}
	return []trial{
		dynamicTrial("dynamic"),
		{
			name:    "delete",
			prepare: func(ctx context.Context, w *work) error { _, _, err := w.bind(ctx, contestClass); return err },
			do: func(ctx context.Context, w *work) (map[string]time.Duration, time.Duration, error) {
				return w.giveUp(ctx)
			},
			clear: func(context.Context, *work) error { return nil },
		},
		static("static, pre-bound", prebound),
		static("static, matched", free),
	}
}

func dynamicTrial(name string) trial {
	return trial{
		name:    name,
		prepare: func(context.Context, *work) error { return nil },
		do: func(ctx context.Context, w *work) (map[string]time.Duration, time.Duration, error) {
			return w.bind(ctx, contestClass)
		},
		clear: func(ctx context.Context, w *work) error { _, _, err := w.giveUp(ctx); return err },
	}
}

// try does one trial in a namespace of its own.
func (c *contest) try(ctx context.Context, who contender, program *stage.Program, t trial) error {
	w := &work{contest: c, namespace: fmt.Sprintf("%s-%d", who.name, len(c.rows)), bare: who.bare}
	if err := c.makeNamespace(ctx, w.namespace); err != nil {
		return err
	}
	if err := t.prepare(ctx, w); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	r := trialResult{trial: t.name, contender: who.name, claims: c.claims}
	log := session{log: c.log()}
	begin, err := log.log.Mark(ctx)
	if err != nil {
		return err
	}
	used := func() (cpu time.Duration) {
		if program != nil {
			cpu, _ = cpuOf(program.Pid()) // one that has ended fails the trial by itself
		}
		return cpu
	}
	before := used()
	var times map[string]time.Duration
	if times, r.took, err = t.do(ctx, w); err != nil {
		return err
	}
	for d := range maps.Values(times) {
		r.times = append(r.times, d)
	}
	end, err := log.quiet(ctx, begin)
	if err != nil {
		return err
	}
	r.cpu = used() - before
	all, err := log.log.Between(begin, end)
	if err != nil {
		return err
	}
	r.api = all.Where(func(q audit.Request) bool { return who.is(q.User) })
	if program != nil {
		if r.memory, err = memoryOf(program.Pid()); err != nil {
			return err
		}
	}
	c.rows = append(c.rows, r)
	return t.clear(ctx, w)
}

// work is what users do, and for the floor what a controller cannot avoid.
type work struct {
	*contest
	namespace string
	bare      bool
	pairs     []pair
}

// volumeKind says whether volumes are made for a claim or for whoever comes.
type volumeKind int

const (
	free volumeKind = iota
	prebound
)

func (w *work) volumeName(i int) string { return fmt.Sprintf("%s-%05d", w.namespace, i) }

// volumes makes volumes that are there before their claims, and waits until they can be bound.
func (w *work) volumes(ctx context.Context, kind volumeKind) error {
	w.pairs = make([]pair, w.claims)
	var available stamps
	see := func(in any) {
		if pv, ok := in.(*corev1.PersistentVolume); ok && pv.Status.Phase == corev1.VolumeAvailable && strings.HasPrefix(pv.Name, w.namespace+"-") {
			available.add(pv.Name)
		}
	}
	forget, err := w.follow(ctx, &corev1.PersistentVolume{}, toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }})
	if err != nil {
		return err
	}
	defer forget()
	if err := w.each(ctx, w.claims, func(ctx context.Context, i int) error {
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
			pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: w.namespace, Name: newClaim(w.namespace, i).Name}
		}
		w.pairs[i] = pair{number: i, pv: pv}
		if err := w.api().Create(ctx, pv); err != nil || !w.bare {
			return err
		}
		pv.Status.Phase = corev1.VolumeAvailable
		return w.api().Status().Update(ctx, pv)
	}); err != nil {
		return err
	}
	return available.await(ctx, w.claims)
}

// bind makes the claims and returns when all are Bound: how long each took, and all together.
func (w *work) bind(ctx context.Context, class string) (map[string]time.Duration, time.Duration, error) {
	var asked, bound stamps
	see := func(in any) {
		if claim, ok := in.(*corev1.PersistentVolumeClaim); ok && claim.Namespace == w.namespace && claim.Status.Phase == corev1.ClaimBound {
			bound.add(claim.Name)
		}
	}
	forget, err := w.follow(ctx, &corev1.PersistentVolumeClaim{}, toolscache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, in any) { see(in) }})
	if err != nil {
		return nil, 0, err
	}
	defer forget()
	if w.pairs == nil {
		w.pairs = make([]pair, w.claims)
	}
	if w.bare && class == contestClass {
		class = "floor" // that nobody serves
	}
	began := time.Now()
	if err := w.each(ctx, w.claims, func(ctx context.Context, i int) error {
		claim := newClaim(w.namespace, i)
		claim.Spec.StorageClassName = &class
		asked.add(claim.Name)
		if err := w.api().Create(ctx, claim); err != nil || !w.bare {
			return err
		}
		w.pairs[i].number, w.pairs[i].claim = i, claim
		return w.bindBare(ctx, &w.pairs[i])
	}); err != nil {
		return nil, 0, err
	}
	if err := bound.await(ctx, w.claims); err != nil {
		return nil, 0, fmt.Errorf("claims bound: %w", err)
	}
	took := time.Since(began)
	times := map[string]time.Duration{}
	for name, at := range bound.times {
		times[name] = at.Sub(asked.times[name])
	}
	return times, took, nil
}

// bindBare is the four writes, of which the first makes a volume or takes one that is there.
func (w *work) bindBare(ctx context.Context, p *pair) error {
	b := bare{api: w.api()}
	if p.pv == nil {
		return b.bind(ctx, p)
	}
	p.pv.Spec.ClaimRef = newVolume(p.claim).Spec.ClaimRef
	if err := w.api().Update(ctx, p.pv); err != nil {
		return err
	}
	return b.complete(ctx, p)
}

// giveUp deletes the claims and returns when their volumes are gone.
func (w *work) giveUp(ctx context.Context) (map[string]time.Duration, time.Duration, error) {
	var asked, gone stamps
	claimOf := func(in any) (string, bool) {
		if tombstone, ok := in.(toolscache.DeletedFinalStateUnknown); ok {
			in = tombstone.Obj
		}
		pv, ok := in.(*corev1.PersistentVolume)
		if !ok || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != w.namespace {
			return "", false
		}
		return pv.Spec.ClaimRef.Name, true
	}
	forget, err := w.follow(ctx, &corev1.PersistentVolume{}, toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
		if name, ok := claimOf(in); ok {
			gone.add(name)
		}
	}})
	if err != nil {
		return nil, 0, err
	}
	defer forget()
	began := time.Now()
	if err := w.each(ctx, w.claims, func(ctx context.Context, i int) error {
		claim := newClaim(w.namespace, i)
		asked.add(claim.Name)
		if err := w.api().Delete(ctx, claim); err != nil || !w.bare {
			return err
		}
		return bare{api: w.api()}.reclaim(ctx, &w.pairs[i])
	}); err != nil {
		return nil, 0, err
	}
	if err := gone.await(ctx, w.claims); err != nil {
		return nil, 0, fmt.Errorf("volumes gone: %w", err)
	}
	took := time.Since(began)
	times := map[string]time.Duration{}
	for name, at := range gone.times {
		times[name] = at.Sub(asked.times[name])
	}
	return times, took, nil
}

// clear takes away claims and volumes that were there before them, and returns when nobody has anything to do with them any more.
func (w *work) clear(ctx context.Context) error {
	var gone stamps
	forget, err := w.follow(ctx, &corev1.PersistentVolume{}, toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(in any) {
		if name, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(in); err == nil && strings.HasPrefix(name, w.namespace+"-") {
			gone.add(name)
		}
	}})
	if err != nil {
		return err
	}
	defer forget()
	if err := w.removeAll(ctx); err != nil {
		return err
	}
	return gone.await(ctx, w.claims)
}

func (w *work) removeAll(ctx context.Context) error {
	return w.each(ctx, w.claims, func(ctx context.Context, i int) error {
		claim := newClaim(w.namespace, i)
		if err := w.api().Delete(ctx, claim); err != nil {
			return err
		}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.volumeName(i)}}
		if err := w.api().Delete(ctx, pv); err != nil {
			return err
		}
		if !w.bare {
			return nil // the contender drops what protects them
		}
		drop := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		if err := w.api().Patch(ctx, claim, drop); err != nil {
			return err
		}
		return w.api().Patch(ctx, pv, drop)
	})
}

// cpuOf is the processor time that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	const user, system, ticksPerSecond = 11, 12, 100
	if len(fields) <= system {
		return 0, fmt.Errorf("processor time: %q is not understood", text)
	}
	var ticks int64
	for _, at := range []int{user, system} {
		n, err := strconv.ParseInt(fields[at], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("processor time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}
