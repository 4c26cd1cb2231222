package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// handle is one volume of a driver. Those of claims without a volume have the name of the claim.
type handle struct{ driver, id string }

// handles adds the CSI volumes of a pod, those that are still to be provisioned among them.
func (c *Cluster) handles(pod *corev1.Pod, into map[handle]bool) map[handle]bool {
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil {
			continue
		}
		if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil {
			if pv.Spec.CSI != nil {
				into[handle{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle}] = true
			}
		} else if class := c.index.classes[objects.ClaimClass(claim)]; class != nil {
			into[handle{binding.Driver(class.Provisioner), "claim " + volume.claim.String()}] = true
		}
	}
	return into
}

// attachedOn are the volumes that count towards the attach limits of a node: those of its pods, and
// those that are still attached.
func (c *Cluster) attachedOn(node string) map[handle]bool {
	used := map[handle]bool{}
	for _, pod := range c.index.podsOn[node] {
		if !isFinished(pod) {
			c.handles(pod, used)
		}
	}
	for _, va := range c.index.attachedTo[node] {
		if pv := c.index.volumes[*va.Spec.Source.PersistentVolumeName]; pv != nil && pv.Spec.CSI != nil {
			used[handle{va.Spec.Attacher, pv.Spec.CSI.VolumeHandle}] = true
		}
	}
	return used
}

// attachLimit returns how many volumes of the driver a node takes, -1 for no limit, and how many
// are in use there.
func (c *Cluster) attachLimit(node, driver string) (limit, used int) {
	if limit = allocatable(c.index.csiNodes[node], driver); limit < 0 {
		return limit, 0
	}
	return limit, countOf(driver, c.attachedOn(node))
}

func countOf(driver string, of map[handle]bool) (n int) {
	for h := range of {
		if h.driver == driver {
			n++
		}
	}
	return n
}

// attachLimitReached compares the volumes of the pod with what the CSINode has room for (plugin
// NodeVolumeLimits, KEP-554).
func (c *Cluster) attachLimitReached(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	csiNode := c.index.csiNodes[node.Name]
	if c.lacks(CSINode) || csiNode == nil {
		return refusal{}, false
	}
	wants := c.handles(pod, map[handle]bool{})
	if len(wants) == 0 {
		return refusal{}, false
	}
	used := c.attachedOn(node.Name)
	maps.DeleteFunc(wants, func(h handle, _ bool) bool { return used[h] })
	for _, d := range csiNode.Spec.Drivers {
		limit, has, more := allocatable(csiNode, d.Name), countOf(d.Name, used), countOf(d.Name, wants)
		if limit < 0 || more == 0 || has+more <= limit {
			continue
		}
		return refusal{on: Ref{Kind: CSIDriver, Name: d.Name}, evidence: []Evidence{{
			Ref{Kind: CSINode, Name: node.Name},
			"spec.drivers[" + d.Name + "].allocatable.count",
			fmt.Sprintf("%d, in use %d", limit, has), fmt.Sprintf("at least %d", has+more),
		}}}, true
	}
	return refusal{}, false
}

func (c *Cluster) fullNodes(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	driver := by.refusals[0].on.Name
	f.Reason, f.Actor, f.Cause = verdict.AttachLimitReached, Administrator, by.refusals[0].on
	f.Evidence = by.someEvidence()
	f.WaitsFor = fmt.Sprintf("a node with room for one more volume of driver %q: each that the pod may use has "+
		"reached its limit (%s)",
		driver, by.names())
	f.Fix = []Step{
		{Text: "Add a node, or stop pods whose volumes use up the limit", Command: "kubectl get volumeattachments"},
	}
	return f
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

// driverMissing is about drivers whose CSIDriver has preventPodSchedulingIfMissing and that are not
// registered on the node (plugin NodeVolumeLimits, KEP-5030).
func (c *Cluster) driverMissing(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	if c.lacks(CSINode) {
		return refusal{}, false
	}
	for _, h := range slices.SortedFunc(maps.Keys(c.handles(pod, map[handle]bool{})), compareHandles) {
		driver := c.driverOf(h.driver)
		if driver == nil || !deref(driver.Spec.PreventPodSchedulingIfMissing) || c.registered(node.Name, h.driver) {
			continue
		}
		return refusal{on: Ref{Kind: CSINode, Name: node.Name}, what: h.driver, evidence: []Evidence{{
			Ref{Kind: CSINode, Name: node.Name}, "spec.drivers", c.driversOn(node.Name), h.driver,
		}}}, true
	}
	return refusal{}, false
}

func compareHandles(a, b handle) int {
	return cmp.Or(cmp.Compare(a.driver, b.driver), cmp.Compare(a.id, b.id))
}

func (c *Cluster) needsDriver(_ *corev1.Pod, by refusedBy, f Finding) Finding {
	first := by.refusals[0]
	f.Reason, f.Actor, f.Cause = verdict.DriverNotRegistered, Administrator, first.on
	f.WaitsFor = fmt.Sprintf(
		"driver %q to be registered on a node that the pod may use; it is not on %s", first.what, by.names(),
	)
	f.Evidence = append([]Evidence{{
		Ref{Kind: CSIDriver, Name: first.what}, "spec.preventPodSchedulingIfMissing", "true", "",
	}}, by.someEvidence()...)
	f.Fix = c.registerFix(first.what, first.on.Name)
	return f
}
