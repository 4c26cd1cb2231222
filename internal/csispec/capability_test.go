package csispec

import (
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// AT-A20.
func TestAccessMode(t *testing.T) {
	const (
		rwo, rox, rwx, rwop = corev1.ReadWriteOnce, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOncePod
		bad                 = csi.VolumeCapability_AccessMode_Mode(-1)
	)
	type modes = []corev1.PersistentVolumeAccessMode
	for _, tc := range []struct {
		modes        modes
		plain, multi csi.VolumeCapability_AccessMode_Mode
	}{
		{modes{rwo}, csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER},
		{modes{rwop}, csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER},
		{modes{rwop, rwo}, bad, bad},
		{modes{rwx, rwo}, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER},
		{modes{rox, rwo}, bad, bad},
		{modes{rox}, csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY},
		{nil, bad, bad},
	} {
		for multi, want := range map[bool]csi.VolumeCapability_AccessMode_Mode{false: tc.plain, true: tc.multi} {
			got, err := AccessMode(tc.modes, multi)
			if (err != nil) != (want == bad) || err == nil && got != want {
				t.Errorf("%v, %t: %v, %v; want %v", tc.modes, multi, got, err, want)
			}
		}
	}
}

// AT-A9.
func TestOf(t *testing.T) {
	pv := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, MountOptions: []string{"noatime"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{}},
	}}
	c, err := CapabilityOf(pv, CapabilityOptions{DefaultFSType: "ext4"})
	if err != nil || c.GetMount().GetFsType() != "ext4" || c.GetMount().GetMountFlags()[0] != "noatime" {
		t.Errorf("%v, %v", c, err)
	}
	pv.Spec.CSI.FSType = "xfs"
	if c, err = CapabilityOf(pv, CapabilityOptions{DefaultFSType: "ext4"}); err != nil || c.GetMount().GetFsType() != "xfs" {
		t.Errorf("%v, %v", c, err)
	}
	pv.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	if c, err = CapabilityOf(pv, CapabilityOptions{}); err != nil || c.GetBlock() == nil {
		t.Errorf("%v, %v", c, err)
	}
}
