package provision

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// checkMinimumSize refuses a volume on which its filesystem cannot be made. Without this check the
// volume is created and the first mount hangs, with an event on the pod only (O-30). The limit of
// the class wins over that of the filesystem, even if it is lower.
func checkMinimumSize(s Snapshot, fsType string) *verdict.Finding {
	least, whose, finding := minimumSize(s, fsType)
	if finding != nil {
		return finding
	}
	asked := s.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if asked.Value() >= least {
		return nil
	}
	return &verdict.Finding{
		Reason: verdict.ClaimTooSmall,
		Message: fmt.Sprintf("claim spec.resources.requests.storage: %s is less than %s, the least that %s",
			asked.String(), resource.NewQuantity(least, resource.BinarySI), whose),
		Fix: "Ask for at least that much",
	}
}

// minimumSize returns the limit in bytes and which setting it comes from.
func minimumSize(s Snapshot, fsType string) (int64, string, *verdict.Finding) {
	if text, ok := s.Class.Parameters[names.OwnParameterMinimumSize]; ok {
		least, err := resource.ParseQuantity(text)
		if err != nil || least.Sign() < 0 {
			return 0, "", invalidClass(
				s,
				names.OwnParameterMinimumSize,
				fmt.Sprintf("%q is not a size", text),
				"Use one such as 300Mi, or 0 for no limit",
			)
		}
		return least.Value(), fmt.Sprintf("StorageClass %q allows", s.Class.Name), nil
	}
	if isBlock(s.Claim) { // no filesystem is made
		return 0, "", nil
	}
	return s.Options.MinVolumeSize[strings.ToLower(fsType)], fmt.Sprintf("--min-volume-size allows for %s", fsType), nil
}
