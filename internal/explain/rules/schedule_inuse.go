package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// usedOnce is about claims with ReadWriteOncePod that another pod has, on whatever node (plugin
// VolumeRestrictions, KEP-2485). ReadWriteOnce excludes no node: a pod on another node waits for
// attachment.
func (c *Cluster) usedOnce(pod *corev1.Pod, _ *corev1.Node) (refusal, bool) {
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil || !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			continue
		}
		for _, other := range c.index.users[volume.claim] {
			if other.UID == pod.UID && other.Name == pod.Name || other.Spec.NodeName == "" || isFinished(other) {
				continue
			}
			return refusal{
				on: podRef(other), what: "claim " + claim.Name + " may be used by one pod only",
				evidence: []Evidence{
					{claimRef(claim), "spec.accessModes", "ReadWriteOncePod", ""},
					{podRef(other), "spec.volumes", claim.Name, "not used by another pod"},
				},
			}, true
		}
	}
	return refusal{}, false
}

// diskConflict is about disks in the pod itself that a pod on the node has already (plugin
// VolumeRestrictions).
func (c *Cluster) diskConflict(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	for i := range pod.Spec.Volumes {
		disk, readOnly := diskOf(&pod.Spec.Volumes[i])
		if disk == "" {
			continue
		}
		for _, other := range c.index.podsOn[node.Name] {
			for j := range other.Spec.Volumes {
				has, alsoReadOnly := diskOf(&other.Spec.Volumes[j])
				if has != disk || isFinished(other) || readOnly && alsoReadOnly {
					continue
				}
				return refusal{on: podRef(other), what: disk + " is mounted on node " + node.Name, evidence: []Evidence{
					{
						podRef(other), "spec.volumes[" + other.Spec.Volumes[j].Name + "]", disk,
						"not used on the node that the pod may use",
					},
				}}, true
			}
		}
	}
	return refusal{}, false
}

// diskOf returns the disk of a volume that the scheduler gives to one pod of a node only, and
// whether several may read it.
func diskOf(v *corev1.Volume) (disk string, readOnly bool) {
	switch {
	case v.GCEPersistentDisk != nil:
		return "disk " + v.GCEPersistentDisk.PDName, v.GCEPersistentDisk.ReadOnly
	case v.AWSElasticBlockStore != nil:
		return "disk " + v.AWSElasticBlockStore.VolumeID, false
	case v.ISCSI != nil:
		return fmt.Sprintf("iSCSI target %s", v.ISCSI.IQN), v.ISCSI.ReadOnly
	case v.RBD != nil:
		return fmt.Sprintf("image %s/%s of %v", v.RBD.RBDPool, v.RBD.RBDImage, v.RBD.CephMonitors), v.RBD.ReadOnly
	}
	return "", false
}

// inUse explains the pod that has the volume.
func (c *Cluster) inUse(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	first := by.refusals[0]
	f.Reason, f.Actor, f.Cause, f.Evidence = verdict.ClaimUsedByOtherPod, User, first.on, first.evidence
	f.WaitsFor = fmt.Sprintf("pod %s to end: %s", first.on.Name, first.what)
	other := c.index.pods[first.on.key()]
	if other.DeletionTimestamp != nil {
		until := other.DeletionTimestamp.Add(patience)
		f.Actor, f.Until = Itself, &until
		return f
	}
	f.Fix = []Step{{
		Text:    "Stop the other pod. A Deployment with such a volume needs strategy Recreate",
		Command: shell.Command("kubectl -n %s delete pod %s", other.Namespace, other.Name),
		Risk:    "the pod is stopped",
	}}
	return f
}
