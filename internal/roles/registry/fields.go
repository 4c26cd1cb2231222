package registry

import (
	"slices"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/purser-csi/purser/internal/kube"
)

// Trim returns a cache transform that keeps only the fields that the given controllers read, and
// those that other roles in the same process read.
func Trim(controllers []Controller, others ...*kube.Fields) toolscache.TransformFunc {
	fields := slices.Clone(others)
	for _, c := range controllers {
		fields = append(fields, c.Fields...)
	}
	return kube.TrimTo(fields)
}

// pairsAnd returns the fields that every controller reads, those of claims and volumes, and its own.
func pairsAnd(own ...*kube.Fields) []*kube.Fields {
	return append(slices.Clone(kube.PairFields), own...)
}
