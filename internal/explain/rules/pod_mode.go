package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// otherVolumeMode finds a container that names a block volume in volumeMounts, or another one in
// volumeDevices: the kubelet refuses both.
func (c *Cluster) otherVolumeMode(pod *corev1.Pod, volume string, claim *corev1.PersistentVolumeClaim) []Finding {
	mode := derefOr(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		isMount := func(m corev1.VolumeMount) bool { return m.Name == volume }
		isDevice := func(d corev1.VolumeDevice) bool { return d.Name == volume }
		var field, wanted string
		switch isBlock := mode == corev1.PersistentVolumeBlock; {
		case isBlock && slices.ContainsFunc(container.VolumeMounts, isMount):
			field, wanted = "volumeMounts", "volumeDevices"
		case !isBlock && slices.ContainsFunc(container.VolumeDevices, isDevice):
			field, wanted = "volumeDevices", "volumeMounts"
		default:
			continue
		}
		f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time).waits(verdict.MountFailed, User,
			"volume %s, which has volumeMode %s and is named in %s of container %s",
			volume, mode, field, container.Name)
		f.Evidence = []Evidence{
			{claimRef(claim), "spec.volumeMode", string(mode), ""},
			{podRef(pod), fmt.Sprintf("spec.containers[%s].%s", container.Name, field), volume, wanted},
		}
		f.Fix = []Step{{
			Text: "Create the pod again with the volume in " + wanted + ", or with a claim of the other volumeMode",
			Risk: "the pod is stopped meanwhile; the volume keeps its data",
		}}
		return []Finding{f}
	}
	return nil
}
