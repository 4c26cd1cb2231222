package binding

import (
	"fmt"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// provision has a volume made for the claim, by a provisioner that is not ours to call (1.12).
func provision(s Snapshot) Verdict {
	if s.Class == nil {
		return waiting(verdict.ClassMissing, fmt.Sprintf(
			"storageclass.storage.k8s.io %q not found", objects.ClaimClass(s.Claim),
		))
	}
	driver := Driver(s.Class.Provisioner)
	if driver == "" {
		return waiting(verdict.ProvisionerUnknown, fmt.Sprintf(
			"no volume plugin matched name: %s", s.Class.Provisioner,
		))
	}
	if s.InProcess {
		then := waiting(verdict.HandedOver, fmt.Sprintf("provisioner %q creates a volume", driver))
		return do{Finding: then.Because(), Actions: []Action{HandOver{s.Claim, driver}}, Then: then}
	}
	then := waiting(
		verdict.ExternalProvisioning,
		fmt.Sprintf("Waiting for a volume to be created either by the external provisioner '%s' "+
			"or manually by the system administrator. If volume creation is delayed, please verify that "+
			"the provisioner is running and correctly registered.", driver),
	)
	if asked, ok := s.Claim.Annotations[names.AnnStorageProvisioner]; ok && asked == driver {
		return then
	}
	return do{
		Finding: finding{
			Reason:  verdict.ProvisionerAsked,
			Message: fmt.Sprintf("provisioner %q is asked for a volume", driver),
		},
		Actions: []Action{AskProvisioner{s.Claim, driver}},
		Then:    then,
	}
}
