package provision

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/proto"

	source "github.com/purser-csi/purser/internal/sources/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// ProtectSource adds the finalizer that protects the source of a claim until its volume is created
// (C-82, C-83). It comes before [Record]. A finalizer without a volume is removed again; a source
// that is deleted during CreateVolume may leave half a volume.
type ProtectSource struct{ Source source.State } // as it was checked

func (ProtectSource) action() {}

func sourceRules(s Snapshot) source.Rules {
	return source.Rules{
		Driver: s.Driver.Name, KeepVolumeMode: s.Options.KeepVolumeMode, CrossNamespace: s.Options.CrossNamespace,
	}
}

// checkSource leaves sources of other kinds to volume populators (C-51, C-53). An event says so,
// once and then repeatedly at long intervals, as long as the claim has no volume.
func checkSource(s Snapshot) Verdict {
	finding := source.CheckKind(s.Claim, sourceRules(s))
	switch {
	case finding == nil:
		return nil
	case finding.Reason == verdict.SourceForeign:
		return wait{Finding: *finding}
	}
	return refuse{Finding: *finding}
}

// checkSourceCapabilities is the part of C-54 for sources.
func checkSourceCapabilities(s Snapshot) Verdict {
	ref := source.Of(s.Claim)
	switch {
	case ref.IsSnapshot() && !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT]:
		return lacks(s, "CREATE_DELETE_SNAPSHOT")
	case ref.IsClaim() && !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CLONE_VOLUME]:
		return lacks(s, "CLONE_VOLUME")
	}
	return nil
}

// contentSource returns the content source of the request (C-59).
func contentSource(s Snapshot) (*csi.VolumeContentSource, *verdict.Finding) {
	return source.Content(s.Claim, s.Source, sourceRules(s))
}

// IsSourceRefused reports whether no volume can be made from the source as it is.
func IsSourceRefused(s Snapshot) bool {
	_, finding := contentSource(s)
	return finding != nil
}

// protect returns the action that keeps the source of a new request; none without a source.
func protect(s Snapshot) []Action {
	if s.Source.Ref.IsNone() {
		return nil
	}
	return []Action{ProtectSource{s.Source}}
}

// checkContentSource compares the content source in the response with the requested one (C-72,
// H-26): a driver that created an empty volume, or copied another source, must not pass. Empty
// means that they are equal.
func checkContentSource(request *csi.CreateVolumeRequest, created *csi.Volume) string {
	asked, got := request.GetVolumeContentSource(), created.GetContentSource()
	switch {
	case asked == nil || proto.Equal(asked, got):
		return ""
	case got == nil:
		return fmt.Sprintf("created volume does not say that it is made from %s", contentText(asked))
	}
	return fmt.Sprintf("created volume is made from %s, and not from %s", contentText(got), contentText(asked))
}

func contentText(c *csi.VolumeContentSource) string {
	if id := c.GetSnapshot().GetSnapshotId(); id != "" {
		return fmt.Sprintf("snapshot %q", id)
	}
	return fmt.Sprintf("volume %q", c.GetVolume().GetVolumeId())
}
