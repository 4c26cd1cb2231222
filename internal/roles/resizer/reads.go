package resizer

import (
	"github.com/purser-csi/purser/internal/kube"
)

// Reads returns the fields that a resizer reads in the cache of the controllers in the same process,
// besides those that the controllers read. A claim that is expanded or modified is whole there.
func Reads() []*kube.Fields {
	return []*kube.Fields{kube.ExpandedVolumeFields, kube.AttributesClassFields}
}
