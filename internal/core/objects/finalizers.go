package objects

import (
	"slices"

	"github.com/purser-csi/purser/internal/core/names"
)

// IsLastFinalizer reports whether only the removed finalizers are left, and possibly that of PV
// protection, which its controller removes. Then managedFields can be cleared in the same write.
// Any other owner that applied a finalizer with server-side apply needs managedFields to remove it.
func IsLastFinalizer(finalizers []string, removed ...string) bool {
	return !slices.ContainsFunc(finalizers, func(f string) bool {
		return f != names.FinalizerPVProtection && !slices.Contains(removed, f)
	})
}
