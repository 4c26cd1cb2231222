package reclaim

import (
	"hash/fnv"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/kube"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

const (
	// IndexAttachedVolume finds the VolumeAttachments of a PersistentVolume, which upstream searches
	// for in the whole list (H-45).
	IndexAttachedVolume = "volume"
	// IndexVolumeHandle finds the PersistentVolumes of the driver with a volume handle (D-37).
	IndexVolumeHandle = "handle"
	// IndexAwaitedClaim finds the PersistentVolumes that are deleted when a claim is gone (D-35).
	IndexAwaitedClaim = "awaited"
)

// Indexes are the indexes of [Reader] for one driver.
func Indexes(driver reclaim.Driver) []kube.Index {
	all := []kube.Index{
		kube.IndexBy(IndexVolumeHandle, func(pv *corev1.PersistentVolume) []string {
			if handle := reclaim.Handle(pv, driver.Name); handle != "" {
				return []string{handleBucket(handle)}
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

// handleBuckets is how many parts the index of handles has. One for each handle costs more memory
// than a volume's name and handle together, for a question that is asked once in the life of a
// volume.
const handleBuckets = 1024

func handleBucket(handle string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(handle)) // it never fails
	return strconv.Itoa(int(hash.Sum32() % handleBuckets))
}
