package explain

import (
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// withSameHandle names the other PersistentVolumes, or contents, that have the handle of one that the
// object uses: a kubelet takes two such volumes for one, and a deletion of one deletes the data of
// both.
func (c *Cluster) withSameHandle(report Report) Report {
	others := c.sameHandles(report.Object)
	if len(others) == 0 {
		return report
	}
	if len(report.Findings) == 0 {
		for _, other := range others {
			report.Summary += "; " + other.Object.String() + " has the same handle on the same driver"
		}
		return report
	}
	first := &report.Findings[0]
	first.Evidence = append(first.Evidence, others...)
	if pv := c.index.volumes[report.Object.Name]; report.Object.Kind == Volume && first.Actor != Itself &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		first.Fix = append([]Step{retain(pv)}, first.Fix...)
	}
	return report
}

// sameHandles are the others of the volumes or of the content that an object uses.
func (c *Cluster) sameHandles(ref Ref) (others []Evidence) {
	switch ref.Kind {
	case Volume:
		return c.volumesOfSameHandle(c.index.volumes[ref.Name])
	case Claim:
		if claim := c.claimOf(ref); claim != nil {
			return c.volumesOfSameHandle(c.index.volumes[claim.Spec.VolumeName])
		}
	case Pod:
		if pod := c.index.pods[ref.key()]; pod != nil {
			for _, pv := range c.boundVolumes(pod) {
				others = append(others, c.volumesOfSameHandle(pv)...)
			}
		}
	case Content:
		return c.contentsOfSameHandle(c.index.contents[ref.Name])
	case Snapshot:
		if s := c.index.snapshots[ref.key()]; s != nil {
			return c.contentsOfSameHandle(c.contentOf(s))
		}
	default:
	}
	return others
}

// oneHandle finds two volumes of a pod that are one for the kubelet: it mounts one of them and waits
// for the other.
func (c *Cluster) oneHandle(pod *corev1.Pod) []Finding {
	seen := map[handle]*corev1.PersistentVolume{}
	for _, pv := range c.boundVolumes(pod) {
		if pv.Spec.CSI == nil {
			continue
		}
		h := handle{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}
		first := seen[h]
		if seen[h] = pv; first == nil || first == pv {
			continue
		}
		f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time).about(volumeRef(pv))
		f = f.waits(verdict.MountFailed, User,
			"volume %s, which has the handle of volume %s: the kubelet takes both for one and mounts only one",
			pv.Name, first.Name)
		f.Evidence = []Evidence{{podRef(pod), "spec.volumes", "two volumes with handle " + quoted(h.id), "one"}}
		f.Fix = []Step{{
			Text: "Create the pod again with one of the two claims, mounted at both paths by one entry of spec.volumes",
			Risk: "the pod is stopped meanwhile; the volume keeps its data",
		}}
		return []Finding{f}
	}
	return nil
}

func (c *Cluster) volumesOfSameHandle(of *corev1.PersistentVolume) (all []Evidence) {
	if of == nil || of.Spec.CSI == nil {
		return nil
	}
	for _, pv := range c.Volumes {
		if csi := pv.Spec.CSI; csi != nil && pv.Name != of.Name &&
			csi.Driver == of.Spec.CSI.Driver && csi.VolumeHandle == of.Spec.CSI.VolumeHandle {
			all = append(all, Evidence{
				volumeRef(pv), "spec.csi.volumeHandle", quoted(csi.VolumeHandle),
				"another than that of " + volumeRef(of).String(),
			})
		}
	}
	return all
}

func (c *Cluster) contentsOfSameHandle(of *snapshotv1.VolumeSnapshotContent) (all []Evidence) {
	if of == nil || snapshotHandle(of) == "" {
		return nil
	}
	for _, content := range c.Contents {
		if content.Name != of.Name && content.Spec.Driver == of.Spec.Driver &&
			snapshotHandle(content) == snapshotHandle(of) {
			all = append(all, Evidence{
				contentRef(content), "status.snapshotHandle", quoted(snapshotHandle(of)),
				"another than that of " + contentRef(of).String(),
			})
		}
	}
	return all
}

// snapshotHandle returns the handle that the driver gave, or that the content was made with; "" for
// none.
func snapshotHandle(content *snapshotv1.VolumeSnapshotContent) string {
	if content.Status != nil && content.Status.SnapshotHandle != nil {
		return *content.Status.SnapshotHandle
	}
	return deref(content.Spec.Source.SnapshotHandle)
}
