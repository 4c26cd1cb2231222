package source

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/names"
)

// The kinds of sources that a CSI driver can make a volume from.
const (
	KindClaim    = "PersistentVolumeClaim"
	KindSnapshot = "VolumeSnapshot"
)

// Ref identifies the source of a claim. The zero value means no source.
type Ref struct {
	Group, Kind string
	types.NamespacedName
}

// IsNone reports whether there is no source.
func (r Ref) IsNone() bool { return r.Kind == "" }

// IsClaim reports whether the source is a PersistentVolumeClaim of the core API group. Another
// group may have a kind of that name (H-25).
func (r Ref) IsClaim() bool { return r.Kind == KindClaim && r.Group == "" }

// IsSnapshot reports whether the source is a VolumeSnapshot.
func (r Ref) IsSnapshot() bool { return r.Kind == KindSnapshot && r.Group == names.SnapshotGroup }

// IsForeign reports whether the source is neither a claim nor a VolumeSnapshot, so that a volume
// populator serves it.
func (r Ref) IsForeign() bool { return !r.IsNone() && !r.IsClaim() && !r.IsSnapshot() }

// String returns the kind, and the name with its namespace.
func (r Ref) String() string { return r.Kind + " " + r.NamespacedName.String() }

// Of returns the source that a claim names: dataSource if set, else dataSourceRef.
func Of(claim *corev1.PersistentVolumeClaim) Ref {
	if from := claim.Spec.DataSource; from != nil {
		return newRef(from.APIGroup, from.Kind, claim.Namespace, from.Name)
	}
	from := claim.Spec.DataSourceRef
	if from == nil {
		return Ref{}
	}
	namespace := claim.Namespace
	if NamesNamespace(claim) {
		namespace = *from.Namespace
	}
	return newRef(from.APIGroup, from.Kind, namespace, from.Name)
}

func newRef(group *string, kind, namespace, name string) Ref {
	return Ref{
		Group: ptr.Deref(group, ""), Kind: kind,
		NamespacedName: types.NamespacedName{Namespace: namespace, Name: name},
	}
}

// NamesNamespace reports whether the source of a claim is given with a namespace. That needs the
// feature gate, even if it is the claim's own namespace.
func NamesNamespace(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.DataSource == nil && claim.Spec.DataSourceRef != nil &&
		ptr.Deref(claim.Spec.DataSourceRef.Namespace, "") != ""
}

// Finalizer returns the finalizer that protects a source of this kind (FI-2, FI-3).
func (r Ref) Finalizer() string {
	if r.IsClaim() {
		return names.FinalizerCloneSource
	}
	return names.FinalizerRestoreSource
}

// IsProtected reports whether an object has the finalizer that protects sources of this kind.
func IsProtected(object metav1.Object, r Ref) bool {
	return slices.Contains(object.GetFinalizers(), r.Finalizer())
}
