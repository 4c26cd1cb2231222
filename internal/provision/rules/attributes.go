package provision

import (
	"fmt"
	"maps"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// AttributesClass is the VolumeAttributesClass that a claim names, as far as it could be read.
type AttributesClass struct {
	Access Access
	Class  *storagev1.VolumeAttributesClass // if Readable
	// Unserved says that the API server does not serve volumeattributesclasses.storage.k8s.io/v1.
	Unserved bool
}

// attributesClass returns the name of the claim's VolumeAttributesClass; empty for none, or when the
// feature gate is off.
func attributesClass(s Snapshot) string {
	if s.Options.IgnoreAttributes || s.Claim == nil {
		return ""
	}
	return deref(s.Claim.Spec.VolumeAttributesClassName)
}

// checkAttributesCapability refuses a VolumeAttributesClass for a driver without MODIFY_VOLUME
//
func checkAttributesCapability(s Snapshot) Verdict {
	if attributesClass(s) != "" && !s.Driver.Controller[csi.ControllerServiceCapability_RPC_MODIFY_VOLUME] {
		return lacks(s, "MODIFY_VOLUME")
	}
	return nil
}

// mutableParameters returns the parameters of the VolumeAttributesClass.
func mutableParameters(s Snapshot) (map[string]string, *verdict.Finding) {
	name := attributesClass(s)
	if name == "" {
		return nil, nil
	}
	class := s.Attributes.Class
	switch {
	case s.Attributes.Unserved:
		return nil, &verdict.Finding{
			Reason: verdict.CreateAttributesMissing,
			Message: "claim spec.volumeAttributesClassName: the API server does not serve " +
				"volumeattributesclasses.storage.k8s.io/v1",
			Fix: "Start the provisioner with --feature-gates=VolumeAttributesClass=false to make volumes without " +
				"attributes",
		}
	case s.Attributes.Access == Forbidden:
		return nil, &verdict.Finding{
			Reason:  verdict.CreateAttributesForbidden,
			Message: fmt.Sprintf("VolumeAttributesClass %q may not be read by the provisioner", name),
			Fix: "Give its service account a ClusterRole with apiGroups [storage.k8s.io], resources " +
				"[volumeattributesclasses], verbs [get]",
		}
	case class == nil:
		return nil, &verdict.Finding{
			Reason:  verdict.CreateAttributesMissing,
			Message: fmt.Sprintf("VolumeAttributesClass %q does not exist", name),
			Fix:     "Create it; provisioning then goes on by itself",
		}
	case class.DriverName != s.Driver.Name:
		return nil, &verdict.Finding{
			Reason: verdict.CreateAttributesOtherDriver,
			Message: fmt.Sprintf(
				"VolumeAttributesClass %q is for driver %q, and the StorageClass for %q", name, class.DriverName,
				s.Driver.Name,
			),
			Fix: "Name a class of the same driver",
		}
	}
	return class.Parameters, nil
}

// checkAttributes compares the attributes of the created volume with the class that the claim names
// now: a repeated request may have those of an earlier class, and the PersistentVolume names the
// class of its volume (P-13). Empty means that they are equal.
func checkAttributes(s Snapshot, request *csi.CreateVolumeRequest) string {
	class := s.Attributes.Class
	if attributesClass(s) == "" && len(request.GetMutableParameters()) == 0 ||
		class == nil && attributesClass(s) != "" {
		return ""
	}
	if class != nil && maps.Equal(class.Parameters, request.GetMutableParameters()) {
		return ""
	}
	return "created volume has the attributes of another VolumeAttributesClass than the claim names by now"
}
