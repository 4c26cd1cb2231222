package publishing

import (
	"errors"
	"fmt"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// Capability returns the CSI capability of a volume (AT-A9).
func Capability(spec *corev1.PersistentVolumeSpec, driver Driver) (*csi.VolumeCapability, error) {
	mode, err := accessMode(spec.AccessModes, driver.can(csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER))
	if err != nil {
		return nil, err
	}
	all := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
	if spec.VolumeMode != nil && *spec.VolumeMode == corev1.PersistentVolumeBlock {
		all.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		return all, nil
	}
	fsType := spec.CSI.FSType
	if fsType == "" {
		fsType = driver.DefaultFSType
	}
	all.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{
		FsType: fsType, MountFlags: spec.MountOptions,
	}}
	return all, nil
}

// accessMode maps the whole list of access modes to one mode of CSI (AT-A20).
//
//nolint:revive // single says what the driver can, not how the function behaves
func accessMode(modes []corev1.PersistentVolumeAccessMode, single bool) (csi.VolumeCapability_AccessMode_Mode, error) {
	has := func(m corev1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, m) }
	switch {
	case has(corev1.ReadWriteOncePod) && slices.ContainsFunc(modes, isNotOncePod):
		return 0, errors.New("CSI does not support ReadWriteOncePod with other access modes on the same PersistentVolume")
	case has(corev1.ReadWriteOncePod) && single:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, nil
	case has(corev1.ReadWriteOncePod):
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	case has(corev1.ReadWriteMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, nil
	case has(corev1.ReadOnlyMany) && has(corev1.ReadWriteOnce):
		return 0, errors.New("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")
	case has(corev1.ReadOnlyMany):
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, nil
	case has(corev1.ReadWriteOnce) && single:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, nil
	case has(corev1.ReadWriteOnce):
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	}
	return 0, fmt.Errorf("unsupported AccessMode combination: %+v", modes)
}

func isNotOncePod(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadWriteOncePod }
