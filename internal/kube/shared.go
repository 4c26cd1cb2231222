package kube

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Pools of values that thousands of cached objects share.
var (
	pooledTexts    pool[string]
	pooledPointers pool[*string]
	pooledLists    pool[[]string]
	pooledMaps     pool[map[string]string]
	pooledAffinity pool[*corev1.VolumeNodeAffinity]
)

// mostPooled bounds the number of values in a pool, in case each object has a different one, such
// as the name of a secret for each claim.
const mostPooled = 1 << 10

// pool holds one copy of equal values. Callers must not change a value from a pool.
type pool[V any] struct {
	mu   sync.Mutex
	have map[string]V
}

// get returns the pooled value for the key; the first value given for a key is the pooled one. A
// full pool is emptied, which does not affect values in use.
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

// sharedPart returns a pooled map with only these keys; see keysOf.
func sharedPart(whole map[string]string, keys []string) map[string]string {
	var part map[string]string
	var name strings.Builder
	for _, key := range keysOf(whole, keys) {
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

// keysOf returns the keys. For one that ends with a slash it has all keys of the map with that prefix,
// in order.
func keysOf(whole map[string]string, keys []string) []string {
	isPrefix := func(key string) bool { return strings.HasSuffix(key, "/") }
	if !slices.ContainsFunc(keys, isPrefix) {
		return keys
	}
	var all []string
	for _, key := range keys {
		if !isPrefix(key) {
			all = append(all, key)
			continue
		}
		for _, has := range slices.Sorted(maps.Keys(whole)) {
			if strings.HasPrefix(has, key) {
				all = append(all, has)
			}
		}
	}
	return all
}

// sharedAffinity returns a pooled node affinity: the volumes of a node or zone share one.
func sharedAffinity(affinity *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	return pooledAffinity.get(affinity.Required.String(), affinity)
}

var (
	pooledModes   pool[[]corev1.PersistentVolumeAccessMode]
	pooledStorage pool[corev1.ResourceList]
	pooledSources pool[*corev1.CSIPersistentVolumeSource]
	blockMode     = new(corev1.PersistentVolumeBlock)
	fileMode      = new(corev1.PersistentVolumeFilesystem)
)

func sharedText(text *string) *string {
	if text == nil {
		return nil
	}
	return pooledPointers.get(*text, text)
}

func sharedModes(modes []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	if len(modes) == 0 {
		return nil
	}
	return pooledModes.get(fmt.Sprint(modes), modes)
}

func sharedMode(mode *corev1.PersistentVolumeMode) *corev1.PersistentVolumeMode {
	switch {
	case mode == nil:
		return nil
	case *mode == corev1.PersistentVolumeBlock:
		return blockMode
	case *mode == corev1.PersistentVolumeFilesystem:
		return fileMode
	}
	return mode
}

// sharedStorage returns a pooled list with only the storage size.
func sharedStorage(list corev1.ResourceList) corev1.ResourceList {
	size, ok := list[corev1.ResourceStorage]
	if !ok {
		return nil
	}
	return pooledStorage.get(size.String(), corev1.ResourceList{corev1.ResourceStorage: size})
}

// sharedSource keeps only the driver of a CSI volume, and only the type of another volume.
func sharedSource(source corev1.PersistentVolumeSource) corev1.PersistentVolumeSource {
	if source.CSI != nil {
		driver := shared(source.CSI.Driver)
		return corev1.PersistentVolumeSource{
			CSI: pooledSources.get(driver, &corev1.CSIPersistentVolumeSource{Driver: driver}),
		}
	}
	var kind corev1.PersistentVolumeSource
	from, to := reflect.ValueOf(source), reflect.ValueOf(&kind).Elem()
	for i := range from.NumField() {
		if field := from.Field(i); field.Kind() == reflect.Pointer && !field.IsNil() {
			to.Field(i).Set(reflect.New(field.Type().Elem()))
		}
	}
	return kind
}
