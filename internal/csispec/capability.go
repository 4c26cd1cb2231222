package csispec

import (
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// CapabilityOptions are what the capability depends on besides the volume.
type CapabilityOptions struct {
	DefaultFSType string // for a volume without one
	MultiWriters  bool   // the driver has SINGLE_NODE_MULTI_WRITER
}

// CapabilityOf returns the capability of a CSI volume: its mode, filesystem and mount options, and one access
// mode for its whole list (AT-A9, AT-A20). The error names a list of access modes without a CSI
// counterpart.
func CapabilityOf(pv *corev1.PersistentVolume, o CapabilityOptions) (*csi.VolumeCapability, error) {
	mode, err := AccessMode(pv.Spec.AccessModes, o.MultiWriters)
	if err != nil {
		return nil, fmt.Errorf("PersistentVolume %q: spec.accessModes: %w", pv.Name, err)
	}
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return c, nil
	}
	fsType := o.DefaultFSType
	if pv.Spec.CSI != nil && pv.Spec.CSI.FSType != "" {
		fsType = pv.Spec.CSI.FSType
	}
	c.AccessType = &csi.VolumeCapability_Mount{
		Mount: &csi.VolumeCapability_MountVolume{FsType: fsType, MountFlags: pv.Spec.MountOptions},
	}
	return c, nil
}

// AccessMode returns the CSI access mode for all access modes of a volume (AT-A20).
func AccessMode(
	modes []corev1.PersistentVolumeAccessMode, multiWriters bool,
) (csi.VolumeCapability_AccessMode_Mode, error) {
	has := func(mode corev1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, mode) }
	switch {
	case has(corev1.ReadWriteOncePod) && len(modes) > 1:
		return 0, fmt.Errorf("%v: ReadWriteOncePod allows no other access mode beside it", modes)
	case has(corev1.ReadWriteOncePod) && multiWriters:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, nil
	case has(corev1.ReadWriteOncePod):
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	case has(corev1.ReadWriteMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, nil
	case has(corev1.ReadOnlyMany) && has(corev1.ReadWriteOnce):
		return 0, fmt.Errorf("%v: CSI has no mode for ReadOnlyMany together with ReadWriteOnce", modes)
	case has(corev1.ReadOnlyMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, nil
	case has(corev1.ReadWriteOnce) && multiWriters:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, nil
	case has(corev1.ReadWriteOnce):
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	}
	return 0, fmt.Errorf("%v: no access mode that CSI knows", modes)
}
