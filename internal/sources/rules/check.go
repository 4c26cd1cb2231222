package source

import (
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// CheckKind returns why the provisioner does not make the volume of a claim, from the claim alone
// nil if it may. A claim without a source passes.
func CheckKind(claim *corev1.PersistentVolumeClaim, r Rules) *verdict.Finding {
	ref := Of(claim)
	switch {
	case NamesNamespace(claim) && !r.CrossNamespace:
		return &verdict.Finding{
			Reason:  verdict.SourceNamespaceOff,
			Message: fmt.Sprintf("claim spec.dataSourceRef.namespace: %q is not supported", ref.Namespace),
			Fix:     "Leave it out, or start the provisioner with --feature-gates=CrossNamespaceVolumeDataSource=true",
		}
	case ref.IsForeign(): // EV-6
		return &verdict.Finding{
			Reason: verdict.SourceForeign, Message: "Assuming an external populator will provision the volume",
		}
	}
	return nil
}

// Content returns the content source of the CreateVolume request, or why no volume can be made from
// the source. Both are nil for a claim without a source.
func Content(claim *corev1.PersistentVolumeClaim, s State, r Rules) (*csi.VolumeContentSource, *verdict.Finding) {
	if Of(claim).IsNone() {
		return nil, nil
	}
	if s.Ref.IsNone() { // it was not read
		return nil, missing(Of(claim).String(), "is not read yet")
	}
	if s.Unread.Resource != "" {
		return nil, unread(s)
	}
	if finding := checkGrant(claim, s); finding != nil {
		return nil, finding
	}
	if s.Ref.IsClaim() {
		return clone(claim, s, r)
	}
	return restore(claim, s, r)
}

func unread(s State) *verdict.Finding {
	if s.Unread.Forbidden {
		return &verdict.Finding{
			Reason:  verdict.SourceForbidden,
			Message: fmt.Sprintf("%s cannot be used: the provisioner may not read %s", s.Ref, s.Unread.Resource),
			Fix:     "Give its service account the rules of deploy/rbac/csi-provisioner.yaml",
		}
	}
	fix := "Install the custom resources of external-snapshotter; provisioning then goes on by itself"
	if s.Unread.Resource == GrantResource {
		fix = "Install the custom resources of Gateway API, and create a ReferenceGrant; provisioning then goes on " +
			"by itself"
	}
	return missing(s.Ref.String()+" cannot be used: the API server", "does not serve "+s.Unread.Resource, fix)
}

// GrantResource is the resource of ReferenceGrants.
const GrantResource = "referencegrants." + names.GatewayGroup

// missing returns a finding about an object that does not exist.
func missing(what, problem string, fix ...string) *verdict.Finding {
	finding := &verdict.Finding{
		Reason: verdict.SourceMissing, Message: what + " " + problem,
		Fix: "Provisioning goes on by itself when it is there",
	}
	if len(fix) > 0 {
		finding.Fix = fix[0]
	}
	return finding
}

// refused returns a finding without a fix.
func refused(reason verdict.Reason, format string, args ...any) *verdict.Finding {
	return &verdict.Finding{Reason: reason, Message: fmt.Sprintf(format, args...)}
}
