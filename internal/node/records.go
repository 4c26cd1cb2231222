package node

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// records is what the node has of each volume, and how far the volumes of pods are. Only the run of
// a volume's key changes its record. It is safe for concurrent use.
type records struct {
	mu     sync.Mutex
	byKey  map[mounting.Key]mounting.Record
	failed map[mounting.Key]map[any]int
	status map[mounting.Key]map[mounting.ID]verdict.Finding
}

func newRecords() *records {
	return &records{
		byKey: map[mounting.Key]mounting.Record{}, failed: map[mounting.Key]map[any]int{},
		status: map[mounting.Key]map[mounting.ID]verdict.Finding{},
	}
}

func (r *records) get(key mounting.Key) mounting.Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byKey[key]
}

// change replaces the record of a volume. What was known of its attempts goes with the last of it.
func (r *records) change(key mounting.Key, edit func(mounting.Record) mounting.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record := edit(r.byKey[key])
	if record.IsEmpty() {
		delete(r.byKey, key)
		delete(r.failed, key)
		return
	}
	r.byKey[key] = record
}

func (r *records) keys() []mounting.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := make([]mounting.Key, 0, len(r.byKey))
	for key := range r.byKey {
		keys = append(keys, key)
	}
	return keys
}

// ofPod returns the volumes that are published to the pod, or may be.
func (r *records) ofPod(pod types.UID) []mounting.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []mounting.Key
	for key, record := range r.byKey {
		for _, p := range record.Publications {
			if p.Pod == pod {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// occupied returns the uses of a volume whose folders belong to another one, with that.
func (r *records) occupied(key mounting.Key, uses []mounting.Use) map[mounting.ID]mounting.Key {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := map[mounting.ID]mounting.Key{}
	for other, record := range r.byKey {
		for _, use := range uses {
			if other != key && record.Occupies(use.ID) {
				taken[use.ID] = other
			}
		}
	}
	return taken
}

// count notes the end of an attempt for a publication or a device.
func (r *records) count(key mounting.Key, of any, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !failed {
		delete(r.failed[key], of)
		return
	}
	if r.failed[key] == nil {
		r.failed[key] = map[any]int{}
	}
	r.failed[key][of]++
}

func (r *records) failures(key mounting.Key) map[any]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	failed := make(map[any]int, len(r.failed[key]))
	maps.Copy(failed, r.failed[key])
	return failed
}

// setStatus notes why a volume is not published to a pod, and reports whether that is news. The zero
// finding is for one that is published.
func (r *records) setStatus(key mounting.Key, id mounting.ID, why verdict.Finding) (news bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.status[key][id]
	if r.status[key] == nil {
		r.status[key] = map[mounting.ID]verdict.Finding{}
	}
	r.status[key][id] = why
	return !known || before != why
}

func (r *records) statusOf(key mounting.Key, id mounting.ID) verdict.Finding {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status[key][id]
}

// forget drops the status of a pod that is gone.
func (r *records) forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, byID := range r.status {
		for id := range byID {
			if id.Pod == pod {
				delete(byID, id)
			}
		}
		if len(byID) == 0 {
			delete(r.status, key)
		}
	}
}
