package life

import (
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// StateFunc returns the cluster after the first n changes at a time.
type StateFunc func(n int, now time.Time) *explain.Cluster

// scope selects the objects of a large source that explanations of one life look at. Of the kinds of
// which each volume has objects, it keeps those that are related to the life; of the others all.
type scope struct {
	claims, pods, snapshots    map[types.NamespacedName]bool
	volumes, handles, contents map[string]bool
	wide                       bool // all claims, volumes, pods and attachments: what a scheduler looks at
}

// scopeOf returns the scope of a life.
func (h *History) scopeOf(v *volume, subject explain.Ref) *scope {
	s := &scope{
		claims: map[types.NamespacedName]bool{}, pods: map[types.NamespacedName]bool{},
		snapshots: map[types.NamespacedName]bool{},
		volumes:   map[string]bool{}, handles: map[string]bool{}, contents: map[string]bool{},
	}
	if subject.Kind == explain.Claim {
		s.claims[types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}] = true
	} else {
		s.volumes[subject.Name] = true
	}
	if claim := v.claimObject; claim != nil {
		s.volumes[claim.Spec.VolumeName] = true
		if source := claim.Spec.DataSource; source != nil {
			of := types.NamespacedName{Namespace: claim.Namespace, Name: source.Name}
			s.claims[of], s.snapshots[of] = true, true
		}
	}
	for _, uid := range v.pods {
		if pod, ok := h.last(uid).Object.(*corev1.Pod); ok {
			s.pods[keyOf(pod)] = true
			for _, name := range protection.ClaimNames(pod) {
				s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
			}
		}
	}
	for _, pair := range v.snapshots {
		ref := refOf(*h.last(pair.snapshot))
		s.snapshots[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] = true
		if content := h.last(pair.content); content != nil {
			s.contents[content.Object.GetName()] = true
		}
	}
	for _, uid := range h.ofKind[explain.Volume] {
		pv, ok := h.last(uid).Object.(*corev1.PersistentVolume)
		if !ok || !s.volumes[pv.Name] && !s.isOfClaim(pv) {
			continue
		}
		s.volumes[pv.Name] = true
		if pv.Spec.CSI != nil {
			s.handles[pv.Spec.CSI.VolumeHandle] = true
		}
	}
	return s
}

func (s *scope) isOfClaim(pv *corev1.PersistentVolume) bool {
	of := pv.Spec.ClaimRef
	return of != nil && s.claims[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// has reports whether an object is in the scope.
//
//nolint:gocyclo // one condition for each kind
func (s *scope) has(o metav1.Object) bool {
	switch o := o.(type) {
	case *corev1.PersistentVolumeClaim:
		// One with a source may be what keeps a claim or a snapshot of the life.
		return s.wide || s.claims[keyOf(o)] || o.Spec.DataSource != nil || o.Spec.DataSourceRef != nil
	case *corev1.PersistentVolume:
		return s.wide || s.volumes[o.Name] || o.Spec.ClaimRef == nil || // a claim may get it
			o.Spec.CSI != nil && s.handles[o.Spec.CSI.VolumeHandle]
	case *corev1.Pod:
		return s.wide || s.pods[keyOf(o)] || explain.HasSidecar(&o.Spec) || s.usesClaim(o)
	case *storagev1.VolumeAttachment:
		return s.wide || s.volumes[deref(o.Spec.Source.PersistentVolumeName)]
	case *snapshotv1.VolumeSnapshot:
		of := types.NamespacedName{Namespace: o.Namespace, Name: deref(o.Spec.Source.PersistentVolumeClaimName)}
		return s.snapshots[keyOf(o)] || s.claims[of]
	case *snapshotv1.VolumeSnapshotContent:
		of := o.Spec.VolumeSnapshotRef
		return s.contents[o.Name] || s.snapshots[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
	case *corev1.Event:
		return s.isAbout(o.InvolvedObject)
	}
	return true
}

func (s *scope) usesClaim(pod *corev1.Pod) bool {
	return slices.ContainsFunc(protection.ClaimNames(pod), func(name string) bool {
		return s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}]
	})
}

func (s *scope) isAbout(o corev1.ObjectReference) bool {
	key := types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
	switch explain.Kind(o.Kind) { //nolint:exhaustive // others are few, and stay
	case explain.Claim:
		return s.claims[key]
	case explain.Volume:
		return s.volumes[o.Name]
	case explain.Pod:
		return s.pods[key]
	case explain.Snapshot:
		return s.snapshots[key]
	case explain.Content:
		return s.contents[o.Name]
	}
	return true
}

// narrowed returns the clusters of one life in a large source: the related objects, and for a time at which
// a pod of the life has no node all objects that a scheduler looks at.
func (b *builder) narrowed(subject explain.Ref) StateFunc {
	if b.Narrow == nil {
		return b.State
	}
	near := b.scopeOf(b.volume, subject)
	wide := *near
	wide.wide = true
	few, all := b.Narrow(near.has), StateFunc(nil)
	return func(n int, now time.Time) *explain.Cluster {
		if b.brief || !b.isUnscheduled(n) {
			return few(n, now)
		}
		if all == nil {
			all = b.Narrow(wide.has)
		}
		b.wide++
		return all(n, now)
	}
}

// isUnscheduled reports whether a pod of the life has no node after the first n changes.
func (b *builder) isUnscheduled(n int) bool {
	for _, uid := range b.volume.pods {
		versions := b.versions(uid)
		i, _ := slices.BinarySearch(versions, n)
		if i == 0 {
			continue
		}
		c := b.Changes[versions[i-1]]
		if pod, ok := c.Object.(*corev1.Pod); ok && !c.Deleted && pod.Spec.NodeName == "" {
			return true
		}
	}
	return false
}
