package binding

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// IsOutdated reports whether a status code of the API server says that what a write relies on does
// not hold: the object is gone (404), has changed (409), or a test failed (422).
func IsOutdated(code int32) bool {
	const notFound, conflict, unprocessable = 404, 409, 422
	return code == notFound || code == conflict || code == unprocessable
}

// AskAfterRefusal returns what is read from the API server after it refused an action as outdated:
// all on which the action was decided.
func AskAfterRefusal(s Snapshot, action Action) AskAPI {
	return AskAPI{Claim: s.Key.Volume == "", Volumes: volumesOf(s, action)}
}

// IsUnchanged reports whether the API server has the objects as the refused action was decided on.
// Then the refusal is its answer, and to decide again would only repeat the write.
func IsUnchanged(before, now Snapshot) bool { return maps.Equal(versionsOf(before), versionsOf(now)) }

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
	case Reserve, AssignClass, AskProvisioner, HandOver, AskAPI, Tell:
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
