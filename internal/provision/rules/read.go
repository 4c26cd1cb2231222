package provision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// What a decision asks for, see [verdict.Ref]. References of one verdict are read in their order. Most
// claims need none of them.
const (
	// ReadVolume is the claim's PersistentVolume, read live.
	ReadVolume = "PersistentVolume"
	// ReadClaim is the claim, read live.
	ReadClaim = "PersistentVolumeClaim"
	// ReadClaimToOwn is [ReadClaim] for the write that takes the claim for a node.
	ReadClaimToOwn = "PersistentVolumeClaim, to take it for the node"
	// ReadNode are the Node and the CSINode with the name, read live if the cache does not have them.
	ReadNode = "Node"
	// ReadNodes are the nodes on which the driver is registered, from the cache.
	ReadNodes = "Nodes of the driver"
	// ReadSource is the source of the claim: a VolumeSnapshot from the cache where the process has it
	// ([source.State.Cached]), else as [ReadLiveSource].
	ReadSource = "source"
	// ReadLiveSource is the source of the claim, read live. The read may be shared with other claims
	// ([Snapshot.SourceShared]).
	ReadLiveSource = "live source"
	// ReadOwnSource is [ReadLiveSource] by a read for this claim alone.
	ReadOwnSource = "source, for this claim alone"
	// ReadAttributes is the VolumeAttributesClass with the name, read live.
	ReadAttributes = "VolumeAttributesClass"
	// ReadNamespace is the namespace with the name, read live.
	ReadNamespace = "Namespace"
	// ReadSecret is the secret with the name, read live without its values.
	ReadSecret = "Secret"
)

// With returns the snapshot with the references as read.
func (s Snapshot) With(refs ...verdict.Ref) Snapshot {
	s.Read = slices.Concat(s.Read, refs)
	return s
}

func (s Snapshot) has(ref verdict.Ref) bool { return slices.Contains(s.Read, ref) }

// ask returns the verdict that asks for those of the references that are not read; nil if all are.
func (s Snapshot) ask(refs ...verdict.Ref) Verdict {
	refs = slices.DeleteFunc(refs, s.has)
	if len(refs) == 0 {
		return nil
	}
	return verdict.MustRead[Action](refs...)
}

func (s Snapshot) volumeRef() verdict.Ref { return verdict.Ref{What: ReadVolume, Name: volumeName(s)} }

// checkCached asks for what the cache is too stale to say about a claim and its volume.
//
// With a journal entry, a CreateVolume is undone, or taken as done, only by live reads:
//   - the cached PersistentVolume may be deleted together with its volume, and a repeated call has
//     created another volume. Or the cache does not have yet the PersistentVolume of a previous leader,
//     or of a write without an answer.
//   - the cache may not have the claim yet, or show it bound long after it and its volume are gone.
//
// Without the cached PersistentVolume of a volume that this process provisioned, CreateVolume would be
// repeated. If that volume does not exist any more, the cached claim may be stale: it may be deleted,
// and would get a new volume (H-5).
func checkCached(s Snapshot) Verdict {
	var refs []verdict.Ref
	if s.Pending != nil || s.Volume == nil && s.Provisioned {
		refs = append(refs, s.volumeRef())
	}
	lost := s.Volume == nil && s.Provisioned && s.Claim != nil && s.has(s.volumeRef())
	if lost || s.Pending != nil && (s.Claim == nil || s.Claim.Spec.VolumeName != "") {
		refs = append(refs, verdict.Ref{What: ReadClaim})
	}
	return s.ask(refs...)
}

// checkRepeatedInputs asks for what is compared with the response to a repeated request, and for what
// the digest of the inputs depends on. The claim may name another VolumeAttributesClass by now.
func checkRepeatedInputs(s Snapshot) Verdict {
	if s.Pending == nil || !wants(s) || checkClass(s) != nil {
		return nil
	}
	return s.ask(append(placeRefs(s), attributesRefs(s)...)...)
}

// checkInputs asks for what a new request is built from. The objects that are read live are those which
// upstream's role may not watch.
func checkInputs(s Snapshot) Verdict {
	refs := append(placeRefs(s), sourceRefs(s)...)
	refs = append(refs, attributesRefs(s)...)
	if readsNamespace(s.Options) {
		refs = append(refs, verdict.Ref{What: ReadNamespace, Name: s.Key.Namespace})
	}
	return s.ask(refs...)
}

// placeRefs returns the nodes that the topology requirement depends on. The scheduler may know a new
// node before this cache, and the selection of a node that is gone is removed.
func placeRefs(s Snapshot) (refs []verdict.Ref) {
	if !s.Driver.HasTopology {
		return nil
	}
	if node := selectedNode(s.Claim); node != "" && (s.Node == nil || s.CSINode == nil) {
		refs = append(refs, verdict.Ref{What: ReadNode, Name: node})
	}
	if needsNodes(s) {
		refs = append(refs, verdict.Ref{What: ReadNodes})
	}
	return refs
}

// sourceRefs returns the source of the claim. A state that was read for another claim may be used only
// to refuse this one, so CreateVolume never follows a read for another claim. A cached state may be used
// only to go on: it is as old as the cache, and [ProtectSource] has the API server compare it, or it is the
// object that this process protects already.
func sourceRefs(s Snapshot) []verdict.Ref {
	ref := source.Of(s.Claim)
	if ref.IsNone() {
		return nil
	}
	read := verdict.Ref{What: ReadSource, Namespace: ref.Namespace, Name: ref.Name}
	refs := []verdict.Ref{read}
	if !s.has(read) {
		return refs
	}
	switch refused := IsSourceRefused(s); {
	case s.Source.Cached && refused:
		read.What = ReadLiveSource
	case s.SourceShared && !refused:
		read.What = ReadOwnSource
	}
	return append(refs, read)
}

func attributesRefs(s Snapshot) []verdict.Ref {
	if name := attributesClass(s); name != "" {
		return []verdict.Ref{{What: ReadAttributes, Name: name}}
	}
	return nil
}

// askSecret asks for the provisioner secret of a request that can be built otherwise. The secrets of
// other calls are read by the components that make these calls.
func askSecret(s Snapshot, ref types.NamespacedName) Verdict {
	if ref.Name == "" {
		return nil
	}
	return s.ask(verdict.Ref{What: ReadSecret, Namespace: ref.Namespace, Name: ref.Name})
}
