package kube

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
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
	// pooledAttributes are those of volumes.
	pooledAttributes pool[map[string]string]
	pooledAffinity   pool[*corev1.VolumeNodeAffinity]
)

// mostPooled bounds the number of values in a pool, in case each object has a different one, such
// as the name of a secret for each claim.
const mostPooled = 1 << 10

// pool holds one copy of equal values. Callers must not change a value from a pool.
type pool[V any] struct {
	mu   sync.Mutex
	have map[string]V
}

// get returns the pooled value for the key. A value that is not pooled yet is made, and is the
// pooled one from then on. A full pool is emptied, which does not affect values in use.
func (p *pool[V]) get(key []byte, value func() V) V {
	p.mu.Lock()
	defer p.mu.Unlock()
	if have, ok := p.have[string(key)]; ok {
		return have
	}
	if p.have == nil || len(p.have) >= mostPooled {
		p.have = map[string]V{}
	}
	made := value()
	p.have[string(key)] = made
	return made
}

// keySize is the room for most keys of pools on the stack.
const keySize = 256

// appendKey appends texts to the key of a pool, each quoted.
func appendKey[T ~string](key []byte, texts ...T) []byte {
	for _, text := range texts {
		key = strconv.AppendQuote(key, string(text))
	}
	return key
}

func shared[T ~string](text T) T {
	return T(pooledTexts.get([]byte(text), func() string { return string(text) }))
}

func sharedList(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return pooledLists.get(appendKey(make([]byte, 0, keySize), list...), func() []string { return list })
}

// sharedPart returns a pooled map with only these keys; see keysOf.
func sharedPart(whole map[string]string, keys []string) map[string]string {
	return partFrom(&pooledMaps, whole, keysOf(whole, keys))
}

// sharedWhole returns a pooled map with all keys, such as the attributes of a volume. They have a pool of
// their own, since each volume of a driver may have others.
func sharedWhole(whole map[string]string) map[string]string {
	return partFrom(&pooledAttributes, whole, slices.Sorted(maps.Keys(whole)))
}

func partFrom(pool *pool[map[string]string], whole map[string]string, keys []string) map[string]string {
	name, n := make([]byte, 0, keySize), 0
	for _, key := range keys {
		if value, ok := whole[key]; ok {
			name, n = appendKey(name, key, value), n+1
		}
	}
	if n == 0 {
		return nil
	}
	return pool.get(name, func() map[string]string {
		part := make(map[string]string, n)
		for _, key := range keys {
			if value, ok := whole[key]; ok {
				part[key] = value
			}
		}
		return part
	})
}

// keysOf returns the keys. For one that ends with a slash it has all keys of the map with that
// prefix as well, in order.
func keysOf(whole map[string]string, keys []string) []string {
	var found []string
	for _, prefix := range keys {
		if !strings.HasSuffix(prefix, "/") {
			continue
		}
		for has := range whole {
			if strings.HasPrefix(has, prefix) {
				found = append(found, has)
			}
		}
	}
	if len(found) == 0 { // as of nearly all objects
		return keys
	}
	slices.Sort(found)
	return slices.Concat(keys, found)
}

// sharedAffinity returns a pooled node affinity: the volumes of a node or zone share one.
func sharedAffinity(affinity *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	key := []byte(affinity.Required.String())
	return pooledAffinity.get(key, func() *corev1.VolumeNodeAffinity { return affinity })
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
	return pooledPointers.get([]byte(*text), func() *string { return text })
}

func sharedModes(modes []corev1.PersistentVolumeAccessMode) []corev1.PersistentVolumeAccessMode {
	if len(modes) == 0 {
		return nil
	}
	key := appendKey(make([]byte, 0, keySize), modes...)
	return pooledModes.get(key, func() []corev1.PersistentVolumeAccessMode { return modes })
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
	return pooledStorage.get([]byte(size.String()), func() corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: size}
	})
}

// sharedSource keeps only the driver of a CSI volume, and only the type of another volume.
func sharedSource(source corev1.PersistentVolumeSource) corev1.PersistentVolumeSource {
	if source.CSI != nil {
		driver := shared(source.CSI.Driver)
		return corev1.PersistentVolumeSource{
			CSI: pooledSources.get([]byte(driver), func() *corev1.CSIPersistentVolumeSource {
				return &corev1.CSIPersistentVolumeSource{Driver: driver}
			}),
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
