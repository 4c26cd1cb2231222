package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/verdict"
)

// explainNode says what of a node keeps volumes from pods.
func (c *Cluster) explainNode(node *corev1.Node) Report {
	ref := Ref{Kind: Node, Name: node.Name}
	report := Report{Object: ref, Summary: fmt.Sprintf("%d volumes attached, %d in use",
		len(node.Status.VolumesAttached), len(node.Status.VolumesInUse))}
	base := findingAbout(ref, nil)
	if !isReady(node) {
		f := base
		f.Reason, f.Actor, f.Evidence, f.Fix = verdict.NodeNotReady, Administrator, []Evidence{
			c.nodeEvidence(node.Name),
		},
			c.nodeFix(node.Name)
		f.WaitsFor = "its kubelet to report again; until then its volumes stay where they are"
		if len(node.Status.VolumesInUse) > 0 {
			f.Evidence = append(f.Evidence, Evidence{
				ref, "status.volumesInUse", fmt.Sprint(len(node.Status.VolumesInUse)), "",
			})
		}
		report.Findings = append(report.Findings, f)
	}
	if csiNode := c.index.csiNodes[node.Name]; csiNode != nil {
		for _, d := range csiNode.Spec.Drivers {
			limit, used := c.attachLimit(node.Name, d.Name)
			if limit >= 0 && used >= limit {
				f := base
				f = f.about(Ref{Kind: CSINode, Name: node.Name}).waits(verdict.AttachLimitReached, Administrator,
					"room for volumes of driver %q: its limit on this node is reached", d.Name)
				f.Evidence = []Evidence{{
					f.Cause, "spec.drivers[" + d.Name + "].allocatable.count",
					fmt.Sprintf("%d, in use %d", limit, used), "more than in use",
				}}
				f.Fix = []Step{{Text: "New pods with such volumes go to other nodes; stop pods here to make room"}}
				report.Findings = append(report.Findings, f)
			}
		}
	}
	report.Findings = append(report.Findings, c.storageHealth(node.Name)...)
	for _, va := range c.Attachments {
		if va.Spec.NodeName == node.Name && (va.DeletionTimestamp != nil || !va.Status.Attached) {
			found := c.attachment(va, base)
			report.Findings = append(report.Findings, found)
		}
	}
	for _, attached := range node.Status.VolumesInUse {
		if slices.ContainsFunc(node.Status.VolumesAttached,
			func(v corev1.AttachedVolume) bool { return v.Name == attached }) {
			continue
		}
		if found := c.inUseNotAttached(node, attached, base); found != nil {
			report.Findings = append(report.Findings, *found)
		}
	}
	report.Next = "pods with volumes can start here"
	return c.finish(report, CSINode, Attachment)
}

// inUseNotAttached finds a volume of a driver with attachment that the kubelet waits for.
func (c *Cluster) inUseNotAttached(node *corev1.Node, name corev1.UniqueVolumeName, f Finding) *Finding {
	for _, pv := range c.Volumes {
		if uniqueName(pv) != name || !c.attachRequired(pv.Spec.CSI.Driver) {
			continue
		}
		for _, va := range c.index.attachments[pv.Name] {
			if va.Spec.NodeName == node.Name {
				return nil // explained with its VolumeAttachment
			}
		}
		f = f.waits(verdict.AttachNotRequested, Administrator,
			"the attach-detach controller to attach volume %s, which the kubelet needs", pv.Name)
		f.Evidence = []Evidence{{f.Object, "status.volumesInUse", string(name), "also in status.volumesAttached"}}
		f.Fix = []Step{{
			Text:    "See whether kube-controller-manager runs",
			Command: "kubectl -n kube-system get lease kube-controller-manager",
		}}
		return &f
	}
	return nil
}
