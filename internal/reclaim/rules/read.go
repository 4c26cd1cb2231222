package reclaim

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// What a decision asks for, see [verdict.Ref]. References of one verdict are read in their order.
const (
	// ReadVolume is the volume of the snapshot, read live.
	ReadVolume = "PersistentVolume"
	// ReadClaim is the claim with the namespace and the name, read live and then from the cache.
	ReadClaim = "PersistentVolumeClaim"
	// ReadClass is the StorageClass with the name, read from the cache.
	ReadClass = "StorageClass"
	// ReadSameHandle are the other volumes of the driver with the handle that the name says. The cache
	// tells their names; they are read live.
	ReadSameHandle = "PersistentVolumes with the handle"
	// ReadAllVolumes is [ReadSameHandle] with a live list of all volumes beside the cache. The list may
	// take a while, so that what was read around the volume before it is dropped.
	ReadAllVolumes = "all PersistentVolumes with the handle"
	// ReadAttachments are the VolumeAttachments of the PersistentVolume with the name, from the cache.
	ReadAttachments = "VolumeAttachments"
	// ReadCallsEnd is when the CreateVolume calls of previous leaders for the PersistentVolume with the
	// name must have ended.
	ReadCallsEnd = "calls of previous leaders"
)

// Answer is what was read for one reference.
type Answer struct {
	Claim, CachedClaim *corev1.PersistentVolumeClaim // nil for none
	Class              *storagev1.StorageClass       // nil for none
	// Volumes are the volumes that have the handle now. Names has all that were read, also those that
	// were gone.
	Volumes  []*corev1.PersistentVolume
	Names    []string
	Attached []string // the nodes that a VolumeAttachment names
	CallsEnd time.Time
}

// With returns the snapshot with what was read for a reference.
func (s Snapshot) With(ref verdict.Ref, answer Answer) Snapshot {
	read := map[verdict.Ref]Answer{}
	maps.Copy(read, s.Read)
	if ref.What == ReadAllVolumes {
		maps.DeleteFunc(read, func(ref verdict.Ref, _ Answer) bool { return ref.What != ReadClass })
	}
	read[ref] = answer
	s.Read = read
	return s
}

// unread returns the references that were not read.
func (s Snapshot) unread(refs ...verdict.Ref) (missing []verdict.Ref) {
	for _, ref := range refs {
		if _, ok := s.Read[ref]; !ok {
			missing = append(missing, ref)
		}
	}
	return missing
}

func (s Snapshot) volumeRef() verdict.Ref { return verdict.Ref{What: ReadVolume, Name: s.Name} }

func claimRef(pv *corev1.PersistentVolume) verdict.Ref {
	return verdict.Ref{What: ReadClaim, Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
}

func (s Snapshot) handleRef(what string) verdict.Ref {
	return verdict.Ref{What: what, Name: Handle(s.Volume, s.Driver.Name)}
}

// classRefs returns the class with the secret for DeleteVolume; none if the volume's annotations have
// it, or if it has no class.
func (s Snapshot) classRefs() []verdict.Ref {
	class := objects.VolumeClass(s.Volume)
	if _, _, annotated := secretAnnotations(s.Volume); annotated || class == "" {
		return nil
	}
	return []verdict.Ref{{What: ReadClass, Name: class}}
}

// listed reports whether all volumes with the handle were listed live.
func (s Snapshot) listed() bool {
	_, listed := s.Read[s.handleRef(ReadAllVolumes)]
	return listed
}

// proofRefs returns what is read to know whether the claim of the live volume is gone. After a list that
// is all at once, since all of it was asked for before.
func (s Snapshot) proofRefs() (refs []verdict.Ref) {
	if NeedsProof(s.Volume) {
		refs = append(refs, claimRef(s.Volume))
	}
	if s.listed() {
		refs = slices.Concat(refs, s.otherClaimRefs(), s.aroundRefs())
	}
	return refs
}

// otherClaimRefs returns the claims of the others with the handle that are reclaimed if these are gone.
func (s Snapshot) otherClaimRefs() (refs []verdict.Ref) {
	for _, pv := range s.Others() {
		if NeedsProof(pv) {
			refs = append(refs, claimRef(pv))
		}
	}
	return refs
}

// aroundRefs returns what is read about the volume, under each name that it has.
func (s Snapshot) aroundRefs() (refs []verdict.Ref) {
	for _, pv := range append([]*corev1.PersistentVolume{s.Volume}, s.Others()...) {
		refs = append(refs, verdict.Ref{What: ReadCallsEnd, Name: pv.Name})
		if s.Driver.Attaches() {
			refs = append(refs, verdict.Ref{What: ReadAttachments, Name: pv.Name})
		}
	}
	return refs
}

// Others returns the other PersistentVolumes of the driver with the handle, as they were read live.
func (s Snapshot) Others() []*corev1.PersistentVolume { return s.sameHandle().Volumes }

// sameHandle returns what was read about the volumes with the handle.
func (s Snapshot) sameHandle() Answer {
	if s.listed() {
		return s.Read[s.handleRef(ReadAllVolumes)]
	}
	return s.Read[s.handleRef(ReadSameHandle)]
}

// class returns the class with the secret for DeleteVolume; nil for none.
func (s Snapshot) class() *storagev1.StorageClass {
	for _, ref := range s.classRefs() {
		return s.Read[ref].Class
	}
	return nil
}

// around returns the nodes to which the volume is attached, under any of the names with its handle,
// and when the calls of previous leaders must have ended (D-16, D-37).
func (s Snapshot) around() (attached []string, callsEnd time.Time) {
	for _, ref := range s.aroundRefs() {
		found := s.Read[ref]
		attached = append(attached, found.Attached...)
		if found.CallsEnd.After(callsEnd) {
			callsEnd = found.CallsEnd
		}
	}
	return attached, callsEnd
}

// proofOf returns the state of a volume's claim, as far as it was read.
func (s Snapshot) proofOf(pv *corev1.PersistentVolume) Proof {
	if !NeedsProof(pv) {
		return NotRead
	}
	found, ok := s.Read[claimRef(pv)]
	if !ok {
		return NotRead
	}
	proof := ProofOf(pv, found.Claim)
	if proof == ClaimExists && IsClaimUncached(pv.Spec.ClaimRef, found.CachedClaim) {
		proof = ClaimUncached
	}
	return proof
}

// Known is what this process knows about a PersistentVolume beyond the API objects. The zero value is
// that of a fresh process.
type Known struct {
	// ReleasedFrom is the claim from which an informer of this process showed the volume to be released;
	// empty if it did not, or if a deletion has failed since.
	ReleasedFrom types.UID
	// IsComing says that the event of this very version of the volume is still to come.
	IsComing bool
	// Reclaimed says that this process deleted the volume in the backend and then sent the request that
	// removes the finalizer, or the one that deletes the object.
	Reclaimed bool
}

// sawRelease reports whether this process observed the release of the volume from the claim in its
// claimRef, so that the cache has all volumes that existed by then.
func (s Snapshot) sawRelease() bool {
	ref := s.Volume.Spec.ClaimRef
	return s.Known.ReleasedFrom != "" && ref != nil && ref.UID == s.Known.ReleasedFrom
}
