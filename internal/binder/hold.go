package binder

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// match is the volume held for a claim, or the best of those that are there, which then is held;
// nil when there is none, and then the claim waits for one. Looking, holding and waiting are one
// step: a volume that comes in between would find no claim. The caller holds mu.
//
// The held volume was chosen for the claim that waited under this name. By now that may be another
// claim, or the claim may have got a class. If the volume does not fit it any more, the volume is
// offered to other claims, which are enqueued.
func (l *objectStore) match(
	claim *corev1.PersistentVolumeClaim,
) (offer *corev1.PersistentVolume, affected []binding.Key) {
	key := keyOf(claim)
	if h := l.holds[key]; h != nil {
		h.seen, h.unsure = true, false
		if pv := l.volume(h.volume); h.committed {
			return nil, nil // it names the claim, or the previous one of this name
		} else if pv != nil && binding.Suits(pv, claim) {
			return pv, nil
		}
		l.unhold(h)
		affected = l.offer(h.volume)
	}
	l.index.Forget(key)
	name := l.index.BestVolume(claim)
	if name == "" {
		l.index.Await(claim)
		return nil, affected
	}
	l.hold(name, key).seen = true
	return l.volume(name), affected
}

// reserve is match under the lock. It returns the name of the volume that is held; empty for none.
func (l *objectStore) reserve(claim *corev1.PersistentVolumeClaim) (held string, affected []binding.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pv, affected := l.match(claim)
	if pv != nil {
		held = pv.Name
	}
	return held, affected
}

// ended takes in how a run saw the claim. A claim that looks for a volume and was offered none waits
// for one from now on; it runs again if one came meanwhile.
func (l *objectStore) ended(s binding.Snapshot) []binding.Key {
	if s.Key.Volume != "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	key := s.Key.Claim
	switch {
	case !binding.LooksForStatic(s):
		l.pass(key)
	case s.Offer == nil:
		offer, affected := l.match(s.Claim)
		if offer != nil {
			l.holds[key].seen = false
			affected = append(affected, s.Key)
		}
		return affected
	default: // endRun offers a held volume that is not taken to other claims
		if h := l.holds[key]; h != nil && !h.unsure {
			h.seen = true
		}
	}
	return nil
}

// pass says that the claim does not look for a volume. The caller holds mu.
func (l *objectStore) pass(key types.NamespacedName) {
	l.index.Forget(key)
	if h := l.holds[key]; h != nil {
		h.seen = true
	}
}

func (l *objectStore) hold(name string, key types.NamespacedName) *hold {
	l.index.Withdraw(name)
	l.index.Forget(key)
	h := &hold{volume: name, claim: key}
	l.held[name], l.holds[key] = h, h
	return h
}

func (l *objectStore) unhold(h *hold) {
	delete(l.held, h.volume)
	delete(l.holds, h.claim)
}

// offer puts the volume where claims find it if it is there for any of them, and holds it for the
// best that waits. The caller holds mu.
func (l *objectStore) offer(name string) []binding.Key {
	pv := l.volume(name)
	if pv == nil || l.held[name] != nil || !binding.Matchable(pv) {
		l.index.Withdraw(name)
		return nil
	}
	if key, ok := l.index.BestClaim(pv); ok {
		l.hold(name, key)
		return []binding.Key{{Claim: key}}
	}
	l.index.Offer(pv)
	return nil
}

// commit notes that the volume is the claim's, until the watch shows so. A claim that names the
// volume takes it from the one that it is held for, which looks for another one.
func (l *objectStore) commit(pv *corev1.PersistentVolume) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[pv.Name]; h != nil && h.claim != binding.KeyOf(pv).Claim {
		return append(l.lift(pv.Name), l.wrote(pv)...)
	}
	return l.wrote(pv)
}

// unanswered keeps the volume held for its claim after a write without a response. The next run
// reads whether the write took effect. Until then no other claim gets the volume, and the claim
// gets no other volume (C1).
func (l *objectStore) unanswered(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.held[name]; h != nil {
		h.seen, h.unsure = false, true
	}
}

// lift ends the hold on a volume that is not there for the claim any more, which looks for another
// one. The caller holds mu.
func (l *objectStore) lift(name string) []binding.Key {
	h := l.held[name]
	if h == nil {
		return nil
	}
	l.unhold(h)
	return []binding.Key{{Claim: h.claim}}
}

// wroteVolume notes what the API server answered to a write.
func (l *objectStore) wroteVolume(pv *corev1.PersistentVolume) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrote(pv)
}

// wrote notes what a volume has become. One that names the claim which it is held for is taken,
// whichever client wrote so: it may have been a write of ours whose answer was lost. The caller
// holds mu.
func (l *objectStore) wrote(pv *corev1.PersistentVolume) []binding.Key {
	l.ownVolumes.Wrote(pv)
	if h, now := l.held[pv.Name], l.volume(pv.Name); h != nil && now != nil && now.Spec.ClaimRef != nil &&
		refKey(now) == h.claim {
		h.committed, h.version = true, now.ResourceVersion
	}
	return l.offer(pv.Name)
}

// answered records the live read of a key's claim. The uids in the claimRefs of volumes, and the
// uid of the claim in the store, are deleted if the live claim has another uid. The uid in the
// objectStore is needed for a volume that is offered again, since no claimRef has it.
func (l *objectStore) answered(s binding.Snapshot, claim *corev1.PersistentVolumeClaim) {
	if claim != nil {
		l.ownClaims.Wrote(claim)
	}
	var named []types.UID
	if s.Claim != nil {
		named = append(named, s.Claim.UID)
	}
	for _, pv := range s.Refs {
		named = append(named, pv.Spec.ClaimRef.UID)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range named {
		if uid != "" && (claim == nil || claim.UID != uid) {
			l.gone.add(under(s.Key.Claim, uid))
		}
	}
}

// under stands for a uid under one name. That the API server has no claim with the uid under this
// name says nothing of other names: a volume copied by hand may refer to the uid of a claim that
// lives.
func under(key types.NamespacedName, uid types.UID) types.UID {
	return types.UID(key.String() + "/" + string(uid))
}

// isGone reports whether no claim with the uid is or will be there under the name. The caller holds
// mu.
func (l *objectStore) isGone(key types.NamespacedName, uid types.UID) bool {
	return l.gone.has(uid) || l.gone.has(under(key, uid))
}

// withdraw removes a volume that a live read did not find, by the uids that the store had before
// the read. Until the watch delivers the deletion, its events about these uids are ignored.
func (l *objectStore) withdraw(name string, before []types.UID) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uid := range before {
		l.gone.add(uid)
	}
	l.index.Withdraw(name)
	return l.lift(name)
}

// endRun offers the volume that a run held and did not take to other claims.
func (l *objectStore) endRun(key types.NamespacedName) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.holds[key]; h == nil || !h.seen {
		return nil
	}
	return l.yield(key)
}

// rest takes a claim that is left alone for a while out of the queue. Its next run looks for a
// volume again.
func (l *objectStore) rest(key types.NamespacedName) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index.Forget(key)
	return l.yield(key)
}

// yield leaves to others what is held for a claim and not taken. The caller holds mu.
func (l *objectStore) yield(key types.NamespacedName) []binding.Key {
	h := l.holds[key]
	if !h.idle() {
		return nil
	}
	l.unhold(h)
	return l.offer(h.volume)
}

func keyOf(claim *corev1.PersistentVolumeClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
}

// tombstones remembers uids of claims and volumes whose deletion was seen. It has room for a burst;
// for one that was forgotten, the API server is asked.
type tombstones struct {
	uids  map[types.UID]struct{}
	order []types.UID
	next  int
}

const mostTombstones = 1 << 14

func newTombstones() tombstones { return tombstones{uids: map[types.UID]struct{}{}} }

func (t *tombstones) add(uid types.UID) {
	if _, ok := t.uids[uid]; ok {
		return
	}
	t.uids[uid] = struct{}{}
	if len(t.order) < mostTombstones {
		t.order = append(t.order, uid)
		return
	}
	delete(t.uids, t.order[t.next])
	t.order[t.next] = uid
	t.next = (t.next + 1) % mostTombstones
}

func (t *tombstones) has(uid types.UID) bool {
	_, ok := t.uids[uid]
	return ok
}
