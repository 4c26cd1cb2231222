package mounting

import (
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Registration is the world around the drivers that have registered on a node (5.12).
type Registration struct {
	Node    *corev1.Node       // nil: there is none
	CSINode *storagev1.CSINode // nil: there is none
	// Written has the uid of the Node that each registered driver was written to; empty if what the
	// driver says has changed since.
	Written map[string]types.UID
}

// Unwritten returns the registered drivers that must be written to Node and CSINode again, sorted:
// the Node or the CSINode was deleted and created again, or the CSINode has lost their entry.
func (r Registration) Unwritten() []string {
	if r.Node == nil {
		return nil
	}
	var names []string
	for name, uid := range r.Written {
		if uid != r.Node.UID || r.CSINode == nil || IsOfAnotherNode(r.CSINode, r.Node) || !hasEntry(r.CSINode, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func hasEntry(csiNode *storagev1.CSINode, driver string) bool {
	return slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// IsOfAnotherNode reports whether the CSINode belongs to a deleted Node of the same name. The garbage
// collector deletes such a CSINode.
func IsOfAnotherNode(csiNode *storagev1.CSINode, node *corev1.Node) bool {
	return slices.ContainsFunc(csiNode.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.APIVersion == "v1" && o.UID != node.UID
	})
}

// MinLimitInterval is the shortest nodeAllocatableUpdatePeriodSeconds that the API server accepts
// (ND-8, KEP-4876). A driver is not asked more often, whatever fails.
const MinLimitInterval = 10 * time.Second

// LimitDue returns when a driver is to be asked again how many volumes the node may have, which it
// was asked last at the given time; zero for never. The CSIDriver has the period. exhausted says that
// the driver has refused an attachment or a mount since then, because the node has no room (KEP-4876).
func LimitDue(info *storagev1.CSIDriver, asked time.Time, exhausted bool) time.Time {
	if info == nil || ptr.Deref(info.Spec.NodeAllocatableUpdatePeriodSeconds, 0) <= 0 {
		return time.Time{}
	}
	if exhausted {
		return asked.Add(MinLimitInterval)
	}
	seconds := min(*info.Spec.NodeAllocatableUpdatePeriodSeconds, int64(maxLimitInterval/time.Second))
	return asked.Add(max(time.Duration(seconds)*time.Second, MinLimitInterval))
}

// maxLimitInterval keeps a period of any length within a time.Duration.
const maxLimitInterval = 10 * 365 * 24 * time.Hour

// IsExhausted reports whether the driver refused the attachment with ResourceExhausted.
func IsExhausted(va *storagev1.VolumeAttachment) bool {
	failed := va.Status.AttachError
	return failed != nil && failed.ErrorCode != nil && codes.Code(*failed.ErrorCode) == codes.ResourceExhausted
}
