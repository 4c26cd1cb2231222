package provisioner

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/kube"
)

// Reads returns the fields that a provisioner reads in the cache of the controllers in the same
// process, besides those that the controllers read. A claim without a volume is whole there.
func Reads() []*kube.Fields {
	return []*kube.Fields{kube.ProvisionedVolumeFields, nodeLabels, kube.AttributesClassFields}
}

// nodeLabels are the topology of a node.
var nodeLabels = kube.Reads(func(from, to *corev1.Node) { to.Labels = from.Labels })
