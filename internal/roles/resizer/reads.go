package resizer

import (
	"slices"

	"github.com/purser-csi/purser/internal/kube"
)

// Reads returns the fields that a resizer reads. A claim that is expanded or modified is whole.
func Reads() []*kube.Fields {
	return append(slices.Clone(kube.PairFields), kube.ExpandedVolumeFields, kube.AttributesClassFields, kube.PodFields)
}

// fields returns [Reads], and with --node-deployment what says where a volume is.
func (r *Resizer) fields() []*kube.Fields {
	if r.NodeDeployment {
		return append(Reads(), kube.PlacedVolumeFields)
	}
	return Reads()
}
