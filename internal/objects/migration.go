package objects

import (
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/purser-csi/purser/internal/names"
)

// silent is a logger for the library that logs nothing.
var silent logr.Logger

// InTree returns the in-tree plugin that is migrated to a CSI driver; empty for none (M-1, M-2).
func InTree(driver string) string {
	plugin, err := csitranslation.New().GetInTreeNameFromCSIName(driver)
	if err != nil {
		return ""
	}
	return plugin
}

// Driver returns the CSI driver that an in-tree plugin is migrated to; empty for none (M-1).
func Driver(plugin string) string {
	driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err != nil {
		return ""
	}
	return driver
}

// Class returns a class of an in-tree plugin as the driver knows it: parameters, allowed topologies
// and provisioner are the driver's (M-4). The class is not changed.
func Class(class *storagev1.StorageClass) (*storagev1.StorageClass, error) {
	translated, err := csitranslation.New().TranslateInTreeStorageClassToCSI(silent, class.Provisioner, class)
	if err != nil {
		return nil, fmt.Errorf("StorageClass %q cannot be translated for its CSI driver: %w", class.Name, err)
	}
	translated.Provisioner = Driver(class.Provisioner)
	return translated, nil
}

// IsInTree reports whether a volume is one of a migrated in-tree plugin.
func IsInTree(pv *corev1.PersistentVolume) bool {
	return pv != nil && pv.Spec.CSI == nil && csitranslation.New().IsPVMigratable(pv)
}

// ToCSI returns a volume of an in-tree plugin as one of the driver (M-6). Every other volume, and no
// volume, is returned as it is. The volume is not changed.
func ToCSI(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	if !IsInTree(pv) {
		return pv, nil
	}
	translated, err := csitranslation.New().TranslateInTreePVToCSI(silent, pv)
	if err != nil {
		return nil, fmt.Errorf("PersistentVolume %q cannot be translated for its CSI driver: %w", pv.Name, err)
	}
	return translated, nil
}

// IsInline reports whether a volume of a pod is an inline volume of a migrated in-tree plugin.
func IsInline(v *corev1.Volume) bool {
	return v.PersistentVolumeClaim == nil && v.Ephemeral == nil && csitranslation.New().IsInlineMigratable(v)
}

// Inline returns an inline volume of a pod as a PersistentVolume of the driver (volume-controllers
// 4.9). The PersistentVolume does not exist: its spec is part of the VolumeAttachment. The volume
// is not changed.
func Inline(v *corev1.Volume, namespace string) (*corev1.PersistentVolume, error) {
	translated, err := csitranslation.New().TranslateInTreeInlineVolumeToCSI(silent, v, namespace)
	if err != nil {
		return nil, fmt.Errorf("volume %q cannot be translated for its CSI driver: %w", v.Name, err)
	}
	return translated, nil
}

// Handle returns the handle of a migrated volume as the driver lists it. A part of it may be known
// only from the node (AT-L3). The handles of other drivers are not changed.
func Handle(driver, handle, nodeID string) string {
	if InTree(driver) == "" {
		return handle
	}
	if repaired, err := csitranslation.New().RepairVolumeHandle(driver, handle, nodeID); err == nil {
		return repaired
	}
	return handle
}

// ToInTree returns a volume of a CSI driver as one of the in-tree plugin that is migrated to the
// driver, provisioned by the plugin (M-5). The volume is not changed.
func ToInTree(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	translated, err := csitranslation.New().TranslateCSIPVToInTree(pv)
	if err != nil {
		return nil, fmt.Errorf("PersistentVolume %q cannot be written as an in-tree volume: %w", pv.Name, err)
	}
	if translated.Annotations == nil {
		translated.Annotations = map[string]string{}
	}
	translated.Annotations[names.AnnProvisionedBy] = InTree(pv.Spec.CSI.Driver)
	return translated, nil
}

// Owner returns the driver of a volume: the one in the annotation migrated-to, or the one that the
// plugin in provisioned-by is migrated to, or the one in provisioned-by (D-2).
func Owner(annotations map[string]string) (driver string, known bool) {
	if to := annotations[names.AnnMigratedTo]; to != "" {
		return to, true
	}
	by, known := annotations[names.AnnProvisionedBy]
	if driver := Driver(by); driver != "" {
		return driver, true
	}
	return by, known
}
