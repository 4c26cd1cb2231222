package resizing

import (
	corev1 "k8s.io/api/core/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
)

// migrated returns the in-tree plugin of a volume and the CSI driver that it is migrated to; empty
// for other volumes.
func migrated(pv *corev1.PersistentVolume) (plugin, driver string) {
	switch source := &pv.Spec.PersistentVolumeSource; {
	case source.AWSElasticBlockStore != nil:
		plugin = "kubernetes.io/aws-ebs"
	case source.GCEPersistentDisk != nil:
		plugin = "kubernetes.io/gce-pd"
	case source.AzureDisk != nil:
		plugin = "kubernetes.io/azure-disk"
	case source.AzureFile != nil:
		plugin = "kubernetes.io/azure-file"
	case source.Cinder != nil:
		plugin = "kubernetes.io/cinder"
	case source.VsphereVolume != nil:
		plugin = "kubernetes.io/vsphere-volume"
	case source.PortworxVolume != nil:
		plugin = "kubernetes.io/portworx-volume"
	default:
		return "", ""
	}
	return plugin, binding.Driver(plugin)
}
