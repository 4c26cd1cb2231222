package kube

import (
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Values that thousands of objects have in common.
var (
	pooledTexts    pool[string]
	pooledPointers pool[*string]
	pooledLists    pool[[]string]
	pooledMaps     pool[map[string]string]
	pooledAffinity pool[*corev1.VolumeNodeAffinity]
)

// mostPooled bounds a pool, for values that turn out to be different in each object, such as the
// name of a secret for each claim.
const mostPooled = 1 << 10

// pool keeps one of the values that are equal. What it gives must not be changed.
type pool[V any] struct {
	mu   sync.Mutex
	have map[string]V
}

// get is the value that was first given for the key. A pool that is full begins anew: what was
// given before stays good.
func (p *pool[V]) get(key string, value V) V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.have[key]; ok {
		return have
	}
	if p.have == nil || len(p.have) >= mostPooled {
		p.have = map[string]V{}
	}
	p.have[key] = value
	return value
}

func shared[T ~string](text T) T { return T(pooledTexts.get(string(text), string(text))) }

func sharedList(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return pooledLists.get(fmt.Sprintf("%q", list), list)
}

// sharedPart has the entries with the keys.
func sharedPart(whole map[string]string, keys []string) map[string]string {
	var part map[string]string
	var name strings.Builder
	for _, key := range keys {
		if value, ok := whole[key]; ok {
			if part == nil {
				part = map[string]string{}
			}
			part[key] = value
			fmt.Fprintf(&name, "%q", []string{key, value})
		}
	}
	if part == nil {
		return nil
	}
	return pooledMaps.get(name.String(), part)
}

// sharedAffinity returns where a volume is, once for all volumes of a node or a zone.
func sharedAffinity(affinity *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	return pooledAffinity.get(affinity.Required.String(), affinity)
}
