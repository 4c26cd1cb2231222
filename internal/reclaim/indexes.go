package reclaim

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

const (
	// IndexAttachedVolume finds the VolumeAttachments of a PersistentVolume, which upstream searches
	// for in the whole list (H-45).
	IndexAttachedVolume = "volume"
	// IndexVolumeHandle finds the PersistentVolumes of the driver with a volume handle (D-37), by
	// [kube.HandleBucket].
	IndexVolumeHandle = "handle"
	// IndexAwaitedClaim finds the PersistentVolumes that are deleted when a claim is gone (D-35).
	IndexAwaitedClaim = "awaited"
)

// Indexes are the indexes of [Reader] for one driver.
func Indexes(driver reclaim.Driver) []kube.Index {
	all := []kube.Index{
		kube.IndexBy(IndexVolumeHandle, func(pv *corev1.PersistentVolume) []string {
			if handle := reclaim.Handle(pv, driver.Name); handle != "" {
				return []string{kube.HandleBucket(handle)}
			}
			return nil
		}),
		kube.IndexBy(IndexAwaitedClaim, func(pv *corev1.PersistentVolume) []string {
			if !reclaim.NeedsProof(pv) {
				return nil
			}
			return []string{pv.Spec.ClaimRef.Namespace + "/" + pv.Spec.ClaimRef.Name}
		}),
	}
	if driver.Attaches() {
		all = append(all, kube.IndexBy(IndexAttachedVolume, kube.AttachedVolume))
	}
	return all
}
