package binder

import (
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/binding"
	"github.com/purser-csi/purser/internal/core/verdict"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Gather implements reconcile.Task. All of it comes from memory. A volume that fits a claim is held
// for it from here on, since two workers must not see the same one; [ledger.settle] lets go of it
// at the end of the run.
func (c *Controller) Gather(_ context.Context, key binding.Key) (*run, error) {
	return &run{c.gather(key, answers{})}, nil
}

// run is one look at a pair: the snapshot that was decided on last, which is another one after the
// API server was asked.
type run struct{ binding.Snapshot }

// answers are what the API server said in this run. They take the place of what is remembered.
type answers struct {
	claimAsked bool
	claim      *corev1.PersistentVolumeClaim
	volumes    map[string]*corev1.PersistentVolume // nil for one that does not exist
}

func (c *Controller) gather(key binding.Key, now answers) binding.Snapshot {
	s, wake := c.ledger.gather(key, now)
	c.wake(wake)
	if s.Class != nil && c.HandOver != nil {
		s.InProcess = c.HandOver.Takes(s.Class.Provisioner) // the name of an in-tree plugin is asked for in writing (1.12)
	}
	return s
}

func (l *ledger) gather(key binding.Key, now answers) (s binding.Snapshot, wake []binding.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s = binding.Snapshot{Key: key, ClaimAsked: now.claimAsked}
	if key.Volume != "" {
		if pv := l.look(key.Volume, now); pv != nil && pv.Spec.ClaimRef == nil {
			s.Refs = []*corev1.PersistentVolume{pv}
		}
		return s, nil
	}
	if s.Claim = now.claim; !now.claimAsked {
		s.Claim = l.claim(key.Claim)
	}
	s.Refs = l.naming(key.Claim, now)
	s.Gone = l.goneOf(s.Refs)
	if s.Claim == nil {
		l.pass(key.Claim)
		return s, nil
	}
	return s, l.surroundings(&s, now)
}

// surroundings are what only a claim that exists has. The caller holds mu.
func (l *ledger) surroundings(s *binding.Snapshot, now answers) (wake []binding.Key) {
	if name := s.Claim.Spec.VolumeName; name != "" {
		s.Named = l.look(name, now)
		_, s.VolumesAsked = now.volumes[name]
	}
	if name := binding.ClassName(s.Claim); name != "" {
		s.Class = l.classes[name]
	}
	if binding.AsksNoClass(s.Claim) {
		s.Default = l.defaultClass()
	}
	if binding.DelaysBinding(s.Class) {
		s.Pods = l.consumers(s.Key.Claim)
	}
	if binding.SeeksStatic(s.Claim, s.Class) && binding.Reserved(*s) == nil {
		s.Offer, wake = l.match(s.Claim)
	} else {
		l.pass(s.Key.Claim)
	}
	return wake
}

func (l *ledger) look(name string, now answers) *corev1.PersistentVolume {
	if pv, asked := now.volumes[name]; asked {
		return pv
	}
	return l.volume(name)
}

// naming are the volumes whose claimRef has the name of the claim: those that the watch shows, the
// one that was written last, and those of which the API server says so.
func (l *ledger) naming(key types.NamespacedName, now answers) []*corev1.PersistentVolume {
	names, more := l.referring(key), slices.Sorted(maps.Keys(now.volumes))
	if h := l.holds[key]; h != nil {
		more = append(more, h.volume)
	}
	for _, name := range more {
		if !slices.Contains(names, name) {
			names = append(slices.Clip(names), name) // what others have stays as it is
		}
	}
	var all []*corev1.PersistentVolume
	for _, name := range names {
		if pv := l.look(name, now); pv != nil && pv.Spec.ClaimRef != nil && refKey(pv) == key {
			all = append(all, pv)
		}
	}
	return all
}

func (l *ledger) goneOf(volumes []*corev1.PersistentVolume) map[types.UID]struct{} {
	gone := map[types.UID]struct{}{}
	for _, pv := range volumes {
		if uid := pv.Spec.ClaimRef.UID; uid != "" && l.isGone(refKey(pv), uid) {
			gone[uid] = struct{}{}
		}
	}
	return gone
}

// ask reads from the API server what the snapshot is about, and gathers it again.
func (c *Controller) ask(ctx context.Context, s binding.Snapshot, what binding.AskAPI) (binding.Snapshot, error) {
	var now answers
	if what.Claim {
		claim, err := kube.Get(ctx, c.Live, s.Key.Claim, &corev1.PersistentVolumeClaim{})
		if err != nil {
			return s, err
		}
		now.claimAsked, now.claim = true, claim
		c.ledger.answered(s, claim)
		if claim != nil && !c.ledger.showsClaim(claim) {
			c.lookAgain(func() []binding.Key { return c.ledger.doubtClaim(claim) })
		}
	}
	now.volumes = map[string]*corev1.PersistentVolume{}
	for _, name := range what.Volumes {
		pv, err := kube.Get(ctx, c.Live, types.NamespacedName{Name: name}, &corev1.PersistentVolume{})
		if err != nil {
			return s, err
		}
		if now.volumes[name] = pv; pv != nil {
			c.wake(c.ledger.wroteVolume(pv))
			if !c.ledger.showsVolume(pv) {
				c.lookAgain(func() []binding.Key { return c.ledger.doubtVolume(pv) })
			}
		} else {
			c.wake(c.ledger.withdraw(name, uidsOf(s, name)))
		}
	}
	return c.gather(s.Key, now), nil
}

// unseenLook is how long a claim or a volume is believed to be there that the API server has and no
// watch shows.
const unseenLook = time.Minute

// lookAgain doubts what the API server has if no watch has shown it after a while. What goes while
// the watch is broken is never shown, and no event says that it is gone.
func (c *Controller) lookAgain(doubt func() []binding.Key) {
	time.AfterFunc(unseenLook, func() { c.wake(doubt()) })
}

// volumesOf are the names of the volumes on which an action was decided: its own, and those that
// the claim may have. Others name the claim, too, and there may be many: all that have ever
// belonged to one of the name.
func volumesOf(s binding.Snapshot, action binding.Action) []string {
	names := map[string]struct{}{volumeOf(action): {}}
	if s.Claim != nil {
		names[s.Claim.Spec.VolumeName] = struct{}{}
	}
	if s.Offer != nil {
		names[s.Offer.Name] = struct{}{}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// volumeOf is the name of the volume that an action is about; empty for none.
func volumeOf(action binding.Action) string {
	switch a := action.(type) {
	case binding.ClaimVolume:
		return a.Volume.Name
	case binding.Complete:
		return a.Name
	case binding.SetClaimStatus:
		return a.Volume
	case binding.SetVolumePhase:
		return a.Volume.Name
	case binding.Unbind:
		return a.Volume.Name
	case binding.SetMigration:
		if a.Volume != nil {
			return a.Volume.Name
		}
	// these are about claims, or no writes
	case binding.AssignClass, binding.AskProvisioner, binding.HandOver, binding.AskAPI, binding.Tell:
	}
	return ""
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

// versionsOf are the resource versions of what a snapshot has, by uid.
func versionsOf(s binding.Snapshot) map[types.UID]string {
	versions := map[types.UID]string{}
	if s.Claim != nil {
		versions[s.Claim.UID] = s.Claim.ResourceVersion
	}
	for _, pv := range append(slices.Clone(s.Refs), s.Named, s.Offer) {
		if pv != nil {
			versions[pv.UID] = pv.ResourceVersion
		}
	}
	return versions
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
		about.Log = append(about.Log, telemetry.KeyClass, binding.ClassName(r.Claim))
	}
	return about
}
