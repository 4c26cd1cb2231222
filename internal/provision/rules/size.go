package provision

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// checkMinimumSize refuses a volume on which its filesystem cannot be made. Without this check the
// volume is created and the first mount hangs, with an event on the pod only (O-30). The limit of
// the class wins over that of the filesystem, even if it is lower.
func checkMinimumSize(s Snapshot, fsType string, bytes int64) *verdict.Finding {
	least, whose, finding := minimumSize(s, fsType)
	if finding != nil {
		return finding
	}
	if bytes >= least {
		return nil
	}
	asked, limit := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage], size.Quantity(least)
	return &verdict.Finding{
		Reason: verdict.ClaimTooSmall,
		Message: fmt.Sprintf("claim spec.resources.requests.storage: %s is less than %s, the least that %s",
			asked.String(), limit.String(), whose),
		Fix: "Ask for at least that much",
	}
}

// requestedBytes returns the size for the request, or refuses one that no request can have.
func requestedBytes(s Snapshot) (int64, *verdict.Finding) {
	bytes, problem := size.Bytes(s.Claim.Spec.Resources.Requests[corev1.ResourceStorage])
	if problem == nil {
		return bytes, nil
	}
	return 0, &verdict.Finding{
		Reason:  verdict.ClaimInvalid,
		Message: "claim spec.resources.requests.storage: " + problem.Message,
		Fix:     problem.Fix + ". The size of a claim without a volume is fixed: delete the claim and create it again",
	}
}

// minimumSize returns the limit in bytes and which setting it comes from.
func minimumSize(s Snapshot, fsType string) (int64, string, *verdict.Finding) {
	if text, ok := s.Class.Parameters[names.OwnParameterMinimumSize]; ok {
		least, err := size.Parse(text)
		bytes, problem := size.Bytes(least)
		if err != nil || problem != nil {
			return 0, "", invalidClass(
				s,
				names.OwnParameterMinimumSize,
				fmt.Sprintf("%q is not a size", text),
				"Use one such as 300Mi, or 0 for no limit",
			)
		}
		return bytes, fmt.Sprintf("StorageClass %q allows", s.Class.Name), nil
	}
	if isBlock(s.Claim) { // no filesystem is made
		return 0, "", nil
	}
	return s.Options.MinVolumeSize[strings.ToLower(fsType)], fmt.Sprintf("--min-volume-size allows for %s", fsType), nil
}
