package binder

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/objects"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// Gather implements reconcile.Task. All of it comes from the store.
func (c *Controller) Gather(_ context.Context, key binding.Key) (*run, error) {
	r := &run{}
	c.gather(r, key)
	return r, nil
}

// run is one look at a pair: the snapshot that was decided on last.
type run struct {
	binding.Snapshot
	now answers
}

// answers are the results of live reads in this run. They take the place of the store's objects.
type answers struct {
	claimAsked bool
	claim      *corev1.PersistentVolumeClaim
	volumes    map[string]*corev1.PersistentVolume // nil for one that does not exist
}

// gather reads the store and the answers of this run.
func (c *Controller) gather(r *run, key binding.Key) {
	r.Snapshot = c.objectStore.gather(key, r.now)
	if r.Class != nil && c.HandOver != nil {
		// the name of an in-tree plugin is asked for in writing (1.12)
		r.InProcess = c.HandOver.Takes(r.Class.Provisioner)
	}
	if c.Pods == nil || r.Claim == nil || r.Claim.Status.Phase == corev1.ClaimBound {
		return
	}
	if users, err := c.Pods(r.Claim); err == nil { // else the protection controller writes the condition
		r.Unused = new(protection.UnusedCondition(users))
	}
}

func (l *objectStore) gather(key binding.Key, now answers) binding.Snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	return GatherFrom(storeObjects{l, now}, key, Memory{
		ClaimAsked: now.claimAsked, Gone: l.isGone,
		Asked: func(name string) bool { _, asked := now.volumes[name]; return asked },
	})
}

// storeObjects is what the store has, and the API server's answers in place of that. It implements
// [Objects]; the caller holds mu.
type storeObjects struct {
	*objectStore
	now answers
}

// Claim implements BindingObjects.
func (o storeObjects) Claim(key types.NamespacedName) *corev1.PersistentVolumeClaim {
	if o.now.claimAsked {
		return o.now.claim
	}
	return o.claim(key)
}

// Volume implements BindingObjects.
func (o storeObjects) Volume(name string) *corev1.PersistentVolume {
	if pv, asked := o.now.volumes[name]; asked {
		return pv
	}
	return o.volume(name)
}

// Naming implements BindingObjects: the volumes that the watch shows, the one that was written
// last, and those of which the API server says so.
func (o storeObjects) Naming(key types.NamespacedName) []*corev1.PersistentVolume {
	names, more := o.referring(key), slices.Sorted(maps.Keys(o.now.volumes))
	if h := o.holds[key]; h != nil {
		more = append(more, h.volume)
	}
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name) // what others have stays as it is
		}
	}
	var all []*corev1.PersistentVolume
	for _, name := range names {
		if pv := o.Volume(name); pv != nil && pv.Spec.ClaimRef != nil && refKey(pv) == key {
			all = append(all, pv)
		}
	}
	return all
}

// Class implements BindingObjects.
func (o storeObjects) Class(name string) *storagev1.StorageClass { return o.classes[name] }

// DefaultClass implements BindingObjects.
func (o storeObjects) DefaultClass() *storagev1.StorageClass { return o.defaultClass() }

// Consumers implements BindingObjects.
func (o storeObjects) Consumers(claim types.NamespacedName) []binding.Consumer {
	return o.consumers(claim)
}

// Static implements BindingObjects. It holds nothing: [objectStore.match] does.
func (o storeObjects) Static(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	if h := o.holds[keyOf(claim)]; h != nil {
		if h.committed {
			return nil // it names the claim, or the previous one of this name
		}
		if pv := o.volume(h.volume); pv != nil && binding.Suits(pv, claim) {
			return pv
		}
	}
	return o.volume(o.index.BestVolume(claim))
}

// Read implements reconcile.Reader. It changes the run, whose end is observed.
func (c *Controller) Read(ctx context.Context, r *run, refs []verdict.Ref) (*run, error) {
	now := answers{volumes: map[string]*corev1.PersistentVolume{}}
	for _, ref := range refs {
		var err error
		switch ref.What {
		case binding.ReadClaim:
			err = c.readClaim(ctx, r, &now)
		case binding.ReadVolume:
			now.volumes[ref.Name], err = c.readVolume(ctx, r, ref.Name)
		case binding.ReadOffer:
			now = r.now
		default:
			err = fmt.Errorf("the binder does not read %s; this is a bug of Purser, please report it", ref)
		}
		if err != nil {
			return r, err
		}
	}
	refusal := r.Refusal
	r.now = now
	c.gather(r, r.Key)
	r.Refusal = refusal
	return r, nil
}

func (c *Controller) readClaim(ctx context.Context, r *run, now *answers) error {
	claim, err := kube.Get(ctx, c.Live, r.Key.Claim, &corev1.PersistentVolumeClaim{})
	if err != nil {
		return err
	}
	now.claimAsked, now.claim = true, claim
	c.objectStore.answered(r.Snapshot, claim)
	if claim != nil && !c.objectStore.showsClaim(claim) {
		c.expireLiveRead(func() []binding.Key { return c.objectStore.doubtClaim(claim) })
	}
	return nil
}

func (c *Controller) readVolume(ctx context.Context, r *run, name string) (*corev1.PersistentVolume, error) {
	pv, err := kube.Get(ctx, c.Live, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
	switch {
	case err != nil:
		return nil, err
	case pv == nil:
		c.enqueue(c.objectStore.withdraw(name, uidsOf(r.Snapshot, name)))
		return nil, nil //nolint:nilnil // it does not exist
	}
	c.enqueue(c.objectStore.wroteVolume(pv))
	if !c.objectStore.showsVolume(pv) {
		c.expireLiveRead(func() []binding.Key { return c.objectStore.forgetUnwatched(pv) })
	}
	return pv, nil
}

// unseenLook is how long the live read of a claim or volume counts while the watch does not deliver
// the object.
const unseenLook = time.Minute

// expireLiveRead drops the result of a live read if the watch has not delivered the object after a
// while. An object that was deleted while the watch was broken is never delivered, and has no
// deletion event.
func (c *Controller) expireLiveRead(recheck func() []binding.Key) {
	time.AfterFunc(unseenLook, func() { c.enqueue(recheck()) })
}

// uidsOf are those under which a snapshot has the volume of a name.
func uidsOf(s binding.Snapshot, name string) (uids []types.UID) {
	for _, pv := range append(slices.Clone(s.Refs), s.Named, s.Offer) {
		if pv != nil && pv.Name == name {
			uids = append(uids, pv.UID)
		}
	}
	return uids
}

// Decide implements reconcile.Task.
func (c *Controller) Decide(r *run, _ time.Time) verdict.Verdict[binding.Action] {
	return binding.Decide(r.Snapshot)
}

// About implements reconcile.Task. It names no object, since the loop is not to tell.
func (c *Controller) About(key binding.Key, r *run) reconcile.About {
	if key.Volume != "" {
		return reconcile.About{Log: []any{telemetry.KeyVolume, key.Volume}}
	}
	about := reconcile.About{Log: []any{telemetry.KeyClaim, key.Claim.String()}}
	if r.Claim != nil {
		about.Log = append(about.Log, telemetry.KeyClass, objects.ClaimClass(r.Claim))
		about.Users, about.Created = []runtime.Object{r.Claim}, r.Claim.CreationTimestamp.Time
	}
	return about
}
