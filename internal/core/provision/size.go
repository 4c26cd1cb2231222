package provision

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// tooSmall refuses a volume on which its filesystem could not be made. Without it the volume is
// created, and the pod hangs at the first mount, with an event on the pod only (O-30). The class's
// own limit wins over the one by filesystem, for better or worse.
func tooSmall(s Snapshot, fsType string) *verdict.Finding {
	least, whose, finding := leastSize(s, fsType)
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

// leastSize is the limit and where it comes from.
func leastSize(s Snapshot, fsType string) (int64, string, *verdict.Finding) {
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
