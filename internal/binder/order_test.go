package binder

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/sim/apiserver"
)

// Whatever the order of writes, events and runs, amid a write too:
//   - a worker that takes a key finds the change for which it was enqueued, and this process's own writes;
//   - a free volume is offered to one claim only, and a taken one to none before the watch shows the write;
//   - what the watch has shown to be gone is not found again, though a late response has it;
//   - once all is shown and nothing is enqueued there is nothing left to do.
func TestAnyOrder(t *testing.T) {
	choices := rapid.SliceOfN(rapid.IntRange(0, 1<<16), 20, 400)
	rapid.Check(t, func(r *rapid.T) {
		if err := playOrder(t, choices.Draw(r, "choices")); err != nil {
			r.Fatal(err)
		}
	})
}

func playOrder(t *testing.T, choices []int) (wrong error) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server := apiserver.New()
		w := &testCluster{T: t, server: server, api: server.Client(), ctx: ctx, events: &events{}}
		o := &anyOrder{choices: choices, cluster: w, gone: map[types.UID]bool{}, newest: map[string]client.Object{}}
		o.hand = w.byHand(func(cfg *Config) { cfg.Writer = interleaved{cfg.Writer, o} })
		o.loop = o.hand.Loop()
		defer func() {
			if broken, ok := recover().(brokenOrder); ok {
				wrong = broken.error
			}
			time.Sleep(2 * time.Minute) // every goroutine comes to its end
		}()
		for len(o.choices) > 0 {
			o.step()
		}
		o.drain()
	})
	return wrong
}

// anyOrder is one order of things.
type anyOrder struct {
	choices []int
	cluster *testCluster
	hand    *byHand
	loop    *reconcile.Loop[binding.Key, *run, binding.Action]
	running []binding.Key
	shown   [2]int                   // events of volumes and of claims
	newest  map[string]client.Object // that was shown or written, by kind and key
	gone    map[types.UID]bool
	log     []string
}

// brokenOrder ends a play.
type brokenOrder struct{ error }

func (o *anyOrder) fatalf(format string, args ...any) {
	panic(brokenOrder{fmt.Errorf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(o.log, "\n"))})
}

func (o *anyOrder) must(err error) {
	if err != nil {
		o.fatalf("%v", err)
	}
}

func (o *anyOrder) did(format string, args ...any) {
	o.log = append(o.log, fmt.Sprintf(format, args...))
}

var orderedKinds = [2]client.Object{&corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}}

func (o *anyOrder) step() {
	switch o.choose(9) {
	case 0, 1, 2:
		o.show(o.choose(1))
	case 3, 4, 5:
		o.runOne()
	case 6:
		o.createVolume()
	case 7:
		o.createClaim()
	case 8:
		o.remove()
	case 9:
		o.change()
	}
}

// choose returns the next choice, from 0 to most; 0 when there is none left.
func (o *anyOrder) choose(most int) int {
	if len(o.choices) == 0 {
		return 0
	}
	next := o.choices[0]
	o.choices = o.choices[1:]
	return next % (most + 1)
}

func (o *anyOrder) createVolume() {
	pv := liveVolume(fmt.Sprint("v", o.choose(2)), "a")
	pv.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(fmt.Sprint(1+o.choose(1), "Gi"))}
	pv.Spec.PersistentVolumeReclaimPolicy = []corev1.PersistentVolumeReclaimPolicy{
		corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete,
	}[o.choose(1)]
	err := o.cluster.api.Create(o.cluster.ctx, pv)
	if o.did("create %s: %v", nameOf(pv), err); err == nil && o.choose(1) == 1 {
		pv.Status.Phase = corev1.VolumeAvailable
		_ = o.cluster.api.Status().Update(o.cluster.ctx, pv)
	}
}

func (o *anyOrder) createClaim() {
	claim := liveClaim(fmt.Sprint("c", o.choose(2)), "a")
	if o.choose(3) == 0 {
		claim.Spec.VolumeName = fmt.Sprint("v", o.choose(2))
	}
	o.did("create %s %q: %v", nameOf(claim), claim.Spec.VolumeName, o.cluster.api.Create(o.cluster.ctx, claim))
}

// any returns an object that is there, if there is one.
func (o *anyOrder) any() client.Object {
	var all []client.Object
	for _, pv := range apiserver.Objects(o.cluster.server, &corev1.PersistentVolume{}) {
		all = append(all, pv)
	}
	for _, claim := range apiserver.Objects(o.cluster.server, &corev1.PersistentVolumeClaim{}) {
		all = append(all, claim)
	}
	if len(all) == 0 {
		return nil
	}
	return all[o.choose(len(all)-1)]
}

func (o *anyOrder) remove() {
	object := o.any()
	if object == nil {
		return
	}
	o.did("remove %s", nameOf(object))
	_ = o.cluster.api.Delete(o.cluster.ctx, object)
	if o.cluster.api.Get(o.cluster.ctx, client.ObjectKeyFromObject(object), object) == nil {
		object.SetFinalizers(nil)
		_ = o.cluster.api.Update(o.cluster.ctx, object)
	}
}

// change is one that concerns the binder or not.
func (o *anyOrder) change() {
	object := o.any()
	if pv, ok := object.(*corev1.PersistentVolume); ok && o.choose(2) == 0 {
		pv.Spec.ClaimRef = nil
	}
	if object != nil {
		object.SetLabels(map[string]string{"n": fmt.Sprint(o.choose(1000))})
		o.did("change %s: %v", nameOf(object), o.cluster.api.Update(o.cluster.ctx, object))
	}
}

// show delivers the next event of a kind, after which late responses may come.
func (o *anyOrder) show(kind int) bool {
	history := o.cluster.server.History(orderedKinds[kind], o.shown[kind])
	if len(history) == 0 {
		return false
	}
	o.shown[kind]++
	o.did("shown: %s %s %s", history[0].Type, nameOf(history[0].Object), history[0].Object.GetResourceVersion())
	out, err := kube.TrimTo(kube.PairFields)(history[0].Object.DeepCopyObject())
	o.must(err)
	object := out.(client.Object)
	if history[0].Type == apiwatch.Deleted {
		o.gone[object.GetUID()] = true
		o.hand.showGone(object)
	} else {
		o.known(object)
		o.hand.show(object)
	}
	return true
}

func nameOf(o client.Object) string { return fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(o)) }

func (o *anyOrder) known(object client.Object) {
	name := nameOf(object)
	if before := o.newest[name]; before == nil || versionOf(before) < versionOf(object) {
		o.newest[name] = object
	}
}

func versionOf(o client.Object) (n int) {
	_, _ = fmt.Sscan(o.GetResourceVersion(), &n)
	return n
}

// runOne runs an enqueued key that does not run.
func (o *anyOrder) runOne() bool {
	keys := slices.DeleteFunc(o.hand.keys(), func(key binding.Key) bool { return slices.Contains(o.running, key) })
	if len(keys) == 0 {
		return false
	}
	key := keys[o.choose(len(keys)-1)]
	o.hand.took(key)
	o.compare(key)
	o.did("run %s", key)
	o.running = append(o.running, key)
	result, err := o.loop.Reconcile(o.cluster.ctx, key)
	o.must(err)
	o.did("ran %s", key)
	o.running = slices.DeleteFunc(o.running, func(k binding.Key) bool { return k == key })
	if result.RequeueAfter > 0 && result.RequeueAfter < 10*time.Second { // not for the event about a long wait
		o.hand.Add(key)
	}
	return true
}

// compare gathers as a worker does that takes the key.
func (o *anyOrder) compare(key binding.Key) {
	r, err := o.hand.Gather(o.cluster.ctx, key)
	o.must(err)
	found := map[string]client.Object{}
	if r.Claim != nil {
		found[nameOf(r.Claim)] = r.Claim
	}
	for _, pv := range append(slices.Clone(r.Refs), r.Named, r.Offer) {
		if pv != nil {
			found[nameOf(pv)] = pv
		}
	}
	for name, object := range found {
		if o.gone[object.GetUID()] {
			o.fatalf("%s was shown to be gone and is found", name)
		}
		if known := o.newest[name]; known != nil && !o.gone[known.GetUID()] && versionOf(object) < versionOf(known) {
			o.fatalf("%s is found at %d, and is known at %d", name, versionOf(object), versionOf(known))
		}
	}
	if pv := r.Offer; pv != nil && !binding.Matchable(pv) {
		o.fatalf("volume %s is offered, and is %+v", pv.Name, pv)
	}
}

// drain shows all and runs all.
func (o *anyOrder) drain() {
	for range 200 {
		more := o.show(0) || o.show(1) || o.runOne()
		if !more {
			time.Sleep(2 * unseenLook)
			if len(o.hand.keys()) == 0 {
				o.atRest()
				return
			}
		}
	}
	o.fatalf("there is no end: %s", o.cluster.state())
}

// atRest is what must hold in the end.
func (o *anyOrder) atRest() {
	var objects []client.Object
	keys, bound := map[binding.Key]bool{}, map[string]string{}
	for _, pv := range apiserver.Objects(o.cluster.server, &corev1.PersistentVolume{}) {
		objects, keys[binding.KeyOf(pv)] = append(objects, pv), true
	}
	for _, claim := range apiserver.Objects(o.cluster.server, &corev1.PersistentVolumeClaim{}) {
		objects, keys[binding.Key{Claim: keyOf(claim)}] = append(objects, claim), true
		if claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		if other := bound[claim.Spec.VolumeName]; other != "" {
			o.fatalf("volume %s is bound to %s and to %s", claim.Spec.VolumeName, other, claim.Name)
		}
		bound[claim.Spec.VolumeName] = claim.Name
	}
	dump, err := kube.NewDump(kube.Scheme(), objects...)
	o.must(err)
	o.must(kube.AddIndexes(o.cluster.ctx, dump, Indexes()...))
	for key := range keys {
		s, err := Gather(o.cluster.ctx, dump, key, liveMemory)
		o.must(err)
		todo, acts := binding.Decide(s).(verdict.Do[binding.Action])
		if acts && slices.ContainsFunc(todo.Actions, func(a binding.Action) bool { _, tells := a.(binding.Tell); return !tells }) {
			o.fatalf("%s: there is %T left to do; %s", key, todo.Actions[0], o.cluster.state())
		}
	}
}

var errNoResponse = errors.New("the response is lost")

// interleaved has other things happen before and after each write, and loses responses.
type interleaved struct {
	client.Client
	order *anyOrder
}

func (i interleaved) Patch(
	ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption,
) error {
	return i.order.write(o, func() error { return i.Client.Patch(ctx, o, p, opts...) })
}

func (i interleaved) Status() client.SubResourceWriter {
	return interleavedStatus{i.Client.Status(), i.order}
}

type interleavedStatus struct {
	client.SubResourceWriter
	order *anyOrder
}

// Patch draws nothing for a volume, whose phase is written beside another write.
func (i interleavedStatus) Patch(
	ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
) error {
	if _, ok := o.(*corev1.PersistentVolume); ok {
		err := i.SubResourceWriter.Patch(ctx, o, p, opts...)
		if err == nil {
			i.order.known(o.DeepCopyObject().(client.Object))
		}
		return err
	}
	return i.order.write(o, func() error { return i.SubResourceWriter.Patch(ctx, o, p, opts...) })
}

func (o *anyOrder) write(object client.Object, write func() error) error {
	synctest.Wait() // for the write beside it
	o.meanwhile()
	err := write()
	if o.did("write %s: %v", nameOf(object), err); err != nil {
		return err
	}
	if o.choose(9) == 0 {
		o.did("no response")
		return errNoResponse
	}
	o.meanwhile()
	o.known(object.DeepCopyObject().(client.Object))
	return nil
}

// meanwhile has other things happen, also other runs.
func (o *anyOrder) meanwhile() {
	if len(o.running) < 3 {
		for range o.choose(2) {
			o.step()
		}
	}
}
