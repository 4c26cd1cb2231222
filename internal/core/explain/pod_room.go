package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/verdict"
)

// noCapacity finds claims that wait for the pod and whose class has no room anywhere, as the driver
// publishes it (KEP-1472).
func (c *Cluster) noCapacity(pod *corev1.Pod, f Finding) []Finding {
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil || claim.Spec.VolumeName != "" || c.lacks(Capacity) {
			continue
		}
		class := c.index.classes[deref(claim.Spec.StorageClassName)]
		if class == nil {
			continue
		}
		if driver := c.driverOf(class.Provisioner); driver != nil && deref(driver.Spec.StorageCapacity) {
			if found := c.roomFor(claim, class, f); found != nil {
				return []Finding{*found}
			}
		}
	}
	return nil
}

// roomFor compares the claim with each CSIStorageCapacity of its class; nil if one has room.
func (c *Cluster) roomFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, f Finding) *Finding {
	wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	f.Evidence = []Evidence{{claimRef(claim), "spec.resources.requests.storage", wants.String(), ""}}
	for _, capacity := range c.Capacities {
		if capacity.StorageClassName != class.Name {
			continue
		}
		has, limit := "absent", capacity.MaximumVolumeSize
		if limit == nil {
			limit = capacity.Capacity
		}
		if limit != nil {
			if limit.Cmp(wants) >= 0 {
				return nil
			}
			has = limit.String()
		}
		ref := Ref{Capacity, capacity.Namespace, capacity.Name}
		f.Evidence = append(f.Evidence, Evidence{ref, "capacity, maximumVolumeSize", has, "at least " + wants.String()})
	}
	driver := class.Provisioner
	f.Reason, f.Actor, f.Cause = verdict.CapacityMissing, Administrator, Ref{Kind: Class, Name: class.Name}
	if len(f.Evidence) > 1 {
		f.WaitsFor = fmt.Sprintf(
			"%s of room for class %q: what driver %q publishes has it nowhere",
			wants.String(),
			class.Name,
			driver,
		)
		f.Fix = []Step{
			{
				Text:    "Free or add storage, or ask for less; the scheduler tries again when the published capacity changes",
				Command: "kubectl get csistoragecapacities -A",
			},
		}
		return &f
	}
	f.WaitsFor = fmt.Sprintf(
		"driver %q to publish its capacity for class %q: its CSIDriver says that it does, and there is no CSIStorageCapacity object",
		driver,
		class.Name,
	)
	f.Evidence = append(
		f.Evidence,
		Evidence{
			Ref{Kind: CSIDriver, Name: driver},
			"spec.storageCapacity",
			"true",
			"with CSIStorageCapacity objects of the class, or false",
		},
	)
	f.Fix = []Step{
		{
			Text:    "Does the provisioner run with --enable-capacity, and may it write CSIStorageCapacity objects?",
			Command: "kubectl get csistoragecapacities -A",
		},
	}
	return &f
}

// fullNodes finds drivers that have reached their attach limit on every node that the pod may use.
func (c *Cluster) fullNodes(pod *corev1.Pod, f Finding) []Finding {
	if c.lacks(CSINode) || c.lacks(Node) {
		return nil
	}
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil {
			continue
		}
		pv := c.index.volumes[claim.Spec.VolumeName]
		if pv == nil || pv.Spec.CSI == nil {
			continue
		}
		driver := pv.Spec.CSI.Driver
		var full []Evidence
		candidates := 0
		for _, node := range c.Nodes {
			if !podAllows(pod, node) || !reaches(node, pv) {
				continue
			}
			candidates++
			if limit, used := c.attachLimit(node.Name, driver); limit >= 0 && used >= limit {
				full = append(
					full,
					Evidence{
						Ref{Kind: CSINode, Name: node.Name},
						"spec.drivers[" + driver + "].allocatable.count",
						fmt.Sprintf("%d, in use %d", limit, used),
						"more than in use",
					},
				)
			}
		}
		if candidates == 0 || len(full) < candidates {
			continue
		}
		f.Reason, f.Actor, f.Cause = verdict.AttachLimitReached, Administrator, Ref{Kind: CSIDriver, Name: driver}
		f.WaitsFor = fmt.Sprintf(
			"a node with room for one more volume of driver %q: each that the pod may use has reached its limit",
			driver,
		)
		f.Evidence = full[:min(len(full), mostNear)]
		f.Fix = []Step{
			{Text: "Add a node, or stop pods whose volumes use up the limit", Command: "kubectl get volumeattachments"},
		}
		return []Finding{f}
	}
	return nil
}

// attachLimit returns how many volumes of the driver a node takes, -1 for no limit, and how many
// are in use there.
func (c *Cluster) attachLimit(node, driver string) (limit, used int) {
	if limit = allocatable(c.index.csiNodes[node], driver); limit < 0 {
		return limit, 0
	}
	handles := map[string]bool{}
	note := func(pv *corev1.PersistentVolume) {
		if pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.Driver == driver {
			handles[pv.Spec.CSI.VolumeHandle] = true
		}
	}
	for _, pod := range c.Pods {
		if pod.Spec.NodeName != node || isFinished(pod) {
			continue
		}
		for _, volume := range podVolumes(pod) {
			if claim := c.index.claims[volume.claim]; claim != nil {
				note(c.index.volumes[claim.Spec.VolumeName])
			}
		}
	}
	for _, va := range c.Attachments { // attached and not in use by a pod any more counts as well
		if va.Spec.NodeName == node && va.Spec.Attacher == driver && va.Spec.Source.PersistentVolumeName != nil {
			note(c.index.volumes[*va.Spec.Source.PersistentVolumeName])
		}
	}
	return limit, len(handles)
}

func allocatable(node *storagev1.CSINode, driver string) int {
	if node == nil {
		return -1
	}
	for _, d := range node.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count)
		}
	}
	return -1
}
