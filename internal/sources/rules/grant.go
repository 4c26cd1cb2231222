package source

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Grant is the part of a ReferenceGrant that this package reads.
type Grant struct {
	From []GrantFrom
	To   []GrantTo
}

// GrantFrom is the kind and namespace of objects that may refer to another object.
type GrantFrom struct{ Group, Kind, Namespace string }

// GrantTo is what they may refer to; an empty name means all objects of the kind.
type GrantTo struct{ Group, Kind, Name string }

// NeedsGrant reports whether the source is in another namespace than its claim.
func NeedsGrant(claim *corev1.PersistentVolumeClaim, ref Ref) bool {
	return !ref.IsNone() && ref.Namespace != claim.Namespace
}

// allows reports whether the grant, which is in the namespace of the source, allows the claim to
// refer to it.
func (g Grant) allows(claim *corev1.PersistentVolumeClaim, ref Ref) bool {
	return slices.Contains(g.From, GrantFrom{Kind: KindClaim, Namespace: claim.Namespace}) &&
		slices.ContainsFunc(g.To, func(to GrantTo) bool {
			return to.Group == ref.Group && to.Kind == ref.Kind && (to.Name == "" || to.Name == ref.Name)
		})
}

// IsGranted reports whether one of the grants, which are in the namespace of the source, allows the claim to
// refer to it.
func IsGranted(claim *corev1.PersistentVolumeClaim, ref Ref, grants []Grant) bool {
	return slices.ContainsFunc(grants, func(g Grant) bool { return g.allows(claim, ref) })
}

func checkGrant(claim *corev1.PersistentVolumeClaim, s State) *verdict.Finding {
	if !NeedsGrant(claim, s.Ref) || IsGranted(claim, s.Ref, s.Grants) {
		return nil
	}
	return &verdict.Finding{
		Reason: verdict.SourceNotGranted,
		Message: fmt.Sprintf("accessing %s of %s dataSource from %s/%s isn't allowed",
			s.Ref.NamespacedName, s.Ref.Kind, claim.Namespace, claim.Name),
		Fix: fmt.Sprintf("Create a ReferenceGrant (%s) in namespace %q from kind %s in namespace %q to group %q, "+
			"kind %s",
			names.GatewayGroup, s.Ref.Namespace, KindClaim, claim.Namespace, s.Ref.Group, s.Ref.Kind),
	}
}
