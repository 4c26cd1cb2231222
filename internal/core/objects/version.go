package objects

import "k8s.io/apimachinery/pkg/util/resourceversion"

// IsNewer reports whether a resource version is newer than another one of the same kind of object.
// Resource versions are ordered numbers since Kubernetes 1.35 says so. Any is newer than none, and a
// malformed one is not newer.
func IsNewer(a, b string) bool {
	if b == "" {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order > 0
}
