package binding

import (
	"github.com/purser-csi/purser/internal/verdict"
)

// What a decision asks for, see [verdict.Ref]. What was read live before is not kept unless the same
// verdict asks for it again, but for [ReadOffer].
const (
	// ReadClaim is the claim of the key, read live: what follows from its absence must not follow from a
	// stale cache (I3).
	ReadClaim = "PersistentVolumeClaim"
	// ReadVolume is the volume with the name, read live.
	ReadVolume = "PersistentVolume"
	// ReadOffer is the volume that is reserved for the claim of the key.
	ReadOffer = "reserved PersistentVolume"
)

// asking asks for the claim of the key, or for the volume that the claim names, beside what was read live
// for this snapshot.
func asking(s Snapshot, what string) Verdict {
	var refs []verdict.Ref
	if s.ClaimAsked || what == ReadClaim {
		refs = append(refs, s.ref(ReadClaim))
	}
	if s.VolumesAsked || what == ReadVolume {
		refs = append(refs, verdict.Ref{What: ReadVolume, Name: s.Claim.Spec.VolumeName})
	}
	return verdict.MustRead[Action](refs...)
}

// ref is a reference to what the claim's name finds.
func (s Snapshot) ref(what string) verdict.Ref {
	return verdict.Ref{What: what, Namespace: s.Key.Claim.Namespace, Name: s.Key.Claim.Name}
}

// ReadAgain is the verdict after another claim reserved the offered volume first.
func ReadAgain(s Snapshot) Verdict { return verdict.MustRead[Action](s.ref(ReadOffer)) }
