package objects

import "k8s.io/apimachinery/pkg/util/resourceversion"

// IsNewer reports whether resourceVersion a is newer than b of the same kind of object: they are
// ordered numbers as of Kubernetes 1.35. Any is newer than an empty one; a malformed one is not
// newer.
func IsNewer(a, b string) bool {
	if b == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
