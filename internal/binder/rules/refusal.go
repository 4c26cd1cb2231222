package binding

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// IsOutdated reports whether a status code of the API server says that what a write relies on does
// not hold: the object is gone (404), has changed (409), or a test failed (422).
func IsOutdated(code int32) bool {
	const notFound, conflict, unprocessable = 404, 409, 422
	return code == notFound || code == conflict || code == unprocessable
}

// Refusal is a write that the API server refused as outdated.
type Refusal struct {
	Message  string
	versions map[types.UID]string // on which the write was decided
}

// AfterRefusal returns the snapshot with the refusal of an action as outdated, and the verdict that asks
// for all on which the action was decided.
func AfterRefusal(s Snapshot, action Action, message string) (Snapshot, Verdict) {
	s.Refusal = &Refusal{Message: message, versions: versionsOf(s)}
	var refs []verdict.Ref
	if s.Key.Volume == "" {
		refs = append(refs, s.ref(ReadClaim))
	}
	for _, name := range volumesOf(s, action) {
		refs = append(refs, verdict.Ref{What: ReadVolume, Name: name})
	}
	return s, verdict.MustRead[Action](refs...)
}

// isFinal reports whether the API server has the objects as the refused action was decided on. Then the
// refusal is its answer, and to decide again would only repeat the write.
func (r *Refusal) isFinal(now Snapshot) bool { return maps.Equal(r.versions, versionsOf(now)) }

// volumesOf are the names of the volumes on which an action was decided: its own, and those that
// the claim may have. Others name the claim, too, and there may be many: all that have ever
// belonged to one of the name.
func volumesOf(s Snapshot, action Action) []string {
	names := map[string]struct{}{volumeNameOf(action): {}}
	if s.Claim != nil {
		names[s.Claim.Spec.VolumeName] = struct{}{}
	}
	if s.Offer != nil {
		names[s.Offer.Name] = struct{}{}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}

// volumeNameOf is the name of the volume that an action is about; empty for none.
func volumeNameOf(action Action) string {
	switch a := action.(type) {
	case ClaimVolume:
		return a.Volume.Name
	case Complete:
		return a.Name
	case SetClaimStatus:
		return a.Volume
	case SetVolumePhase:
		return a.Volume.Name
	case Unbind:
		return a.Volume.Name
	case SetMigration:
		if a.Volume != nil {
			return a.Volume.Name
		}
	// these are about claims, or no writes
	case Reserve, AssignClass, AskProvisioner, HandOver, Tell:
	}
	return ""
}

// versionsOf are the resource versions of what a snapshot has, by uid.
func versionsOf(s Snapshot) map[types.UID]string {
	versions := map[types.UID]string{}
	if s.Claim != nil {
		versions[s.Claim.UID] = s.Claim.ResourceVersion
	}
	for _, pv := range append(slices.Clone(s.Refs), s.Named, s.Offer) {
		if pv != nil {
			versions[pv.UID] = pv.ResourceVersion
		}
	}
	return versions
}
