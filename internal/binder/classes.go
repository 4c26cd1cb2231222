package binder

import (
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// classSeen takes in what the watch shows of a class; now is nil when it is gone. Its claims are
// concerned, and those without a class when another one is the default.
func (l *objectStore) classSeen(name string, now *storagev1.StorageClass) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.defaultClass()
	if now == nil {
		delete(l.classes, name)
	} else {
		l.classes[name] = now
	}
	keys := keysOf(l.classed[name])
	if after := l.defaultClass(); after != nil && (before == nil || before.Name != after.Name) {
		keys = append(keys, keysOf(l.classed[noClass])...)
	}
	return keys
}

// defaultClass is looked for among all, which are few. The caller holds mu.
func (l *objectStore) defaultClass() *storagev1.StorageClass {
	return binding.DefaultClass(slices.Collect(maps.Values(l.classes)))
}

// ofDriver are the claims without a volume whose class is served by the driver.
func (l *objectStore) ofDriver(driver string) []binding.Key {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []binding.Key
	for name, class := range l.classes {
		if binding.Driver(class.Provisioner) == driver {
			keys = append(keys, keysOf(l.classed[name])...)
		}
	}
	return keys
}

func keysOf(claims map[types.NamespacedName]struct{}) []binding.Key {
	keys := make([]binding.Key, 0, len(claims))
	for claim := range claims {
		keys = append(keys, binding.Key{Claim: claim})
	}
	return keys
}
