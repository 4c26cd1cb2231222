package binder

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// auditSteps is in how many parts every pair is looked at, so that no burst of work comes of it.
const auditSteps = 60

// audit enqueues all keys once in a while, in small parts. It should never find anything to do: it
// is a safeguard against an event handler that misses a change.
func (c *Controller) audit(ctx context.Context) error {
	step := c.AuditEvery / auditSteps
	r := round{objectStore: c.objectStore}
	defer r.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(step/2 + rand.N(step+1)): // unlike those of other processes
		}
		c.enqueue(c.restless(r.part()))
	}
}

// round goes through everything in parts, and then again. Between two parts it stands still amid
// the maps of the store, which Go allows to change meanwhile: what is there from the beginning to
// the end comes once. So a part costs what is in it and not what there is, and no list of all keys
// is kept for as long as the round takes.
type round struct {
	objectStore *objectStore
	most        int // entries in a part
	next        func() (key binding.Key, apart, more bool)
	stop        func()
}

// part is what comes next; the last part of a round is often smaller.
func (r *round) part() (keys []binding.Key) {
	r.objectStore.mu.Lock()
	defer r.objectStore.mu.Unlock()
	if r.next == nil {
		r.objectStore.shrink()
		r.next, r.stop = iter.Pull2(r.objectStore.everything())
		r.most = 0
	}
	// A store that shrinks makes no part smaller: the round may still have most of it before it.
	r.most = max(r.most, (len(r.objectStore.claims)+len(r.objectStore.volumes)+auditSteps-1)/auditSteps)
	for range r.most {
		key, apart, more := r.next()
		if !more {
			r.next = nil
			break
		}
		if apart {
			keys = append(keys, key)
		}
	}
	return keys
}

func (r *round) end() {
	if r.stop != nil {
		r.stop()
	}
}

// everything is a key for each claim and each volume that there is, and whether it is looked at by
// itself: most volumes are looked at with a claim. The caller holds mu whenever the next one is
// asked for.
func (l *objectStore) everything() iter.Seq2[binding.Key, bool] {
	return func(yield func(binding.Key, bool) bool) {
		for claim := range l.claims {
			if !yield(binding.Key{Claim: claim}, true) {
				return
			}
		}
		for _, pv := range l.volumes {
			key := binding.KeyOf(pv)
			with := key.Volume != "" && l.spokenFor(pv) || key.Volume == "" && l.claims[key.Claim] != nil
			if !yield(key, !with) {
				return
			}
		}
	}
}

// keys are those of everything that there is.
func (l *objectStore) keys() (keys []binding.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shrink()
	for key, apart := range l.everything() {
		if apart {
			keys = append(keys, key)
		}
	}
	return keys
}

// shrink copies the indexes of one-sided references into new maps. The first lists, of all claims
// and then of all volumes, make them large for a short time, and a Go map never shrinks. The caller
// holds mu.
func (l *objectStore) shrink() {
	l.refs, l.names = maps.Collect(maps.All(l.refs)), maps.Collect(maps.All(l.names))
}
