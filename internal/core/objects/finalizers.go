package objects

import (
	"slices"

	"github.com/purser-csi/purser/internal/core/names"
)

// IsLastFinalizer reports whether an object has no finalizer but those that are removed, or only
// that of PersistentVolume protection, which is removed by itself. Then the account of who wrote
// which field can go as well. An owner that applied a finalizer with server-side apply needs that
// account to remove it.
func IsLastFinalizer(finalizers []string, removed ...string) bool {
	return !slices.ContainsFunc(finalizers, func(f string) bool {
		return f != names.FinalizerPVProtection && !slices.Contains(removed, f)
	})
}
