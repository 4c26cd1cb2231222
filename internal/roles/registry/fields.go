package registry

import (
	"slices"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/kube"
)

// Trim returns a cache transform that keeps only the fields that the given controllers read, and
// those that other roles in the same process read.
func Trim[E Described](controllers []E, others ...*kube.Fields) toolscache.TransformFunc {
	return kube.TrimTo(append(slices.Clone(others), Fields(controllers)...))
}

// Fields returns the fields that the controllers read.
func Fields[E Described](controllers []E) []*kube.Fields {
	var all []*kube.Fields
	for _, c := range controllers {
		all = append(all, c.entry().Fields...)
	}
	return all
}

// pairsAnd returns the fields that every controller reads, those of claims and volumes, and its own.
func pairsAnd(own ...*kube.Fields) []*kube.Fields {
	return append(slices.Clone(kube.PairFields), own...)
}
