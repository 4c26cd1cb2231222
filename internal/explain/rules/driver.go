package explain

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// componentsOf are the sidecars of a driver, with the reason for which a user waits if one is silent.
func componentsOf(driver string) map[verdict.Reason]component {
	return map[verdict.Reason]component{
		verdict.ProvisionerSilent: provisioner(driver), verdict.AttacherSilent: attacher(driver),
		verdict.ResizerSilent: resizer(driver), verdict.SnapshotterSilent: snapshotter(driver),
	}
}

// explainDriver says on which nodes a driver is registered and whether its sidecars run. One without a
// lease may run without leader election, or not be part of the driver, so it counts only where an object
// waits for it.
func (c *Cluster) explainDriver(driver *storagev1.CSIDriver) Report {
	ref := Ref{Kind: CSIDriver, Name: driver.Name}
	var without []string
	on := 0
	for _, node := range c.Nodes {
		if c.registered(node.Name, driver.Name) {
			on++
		} else {
			without = append(without, node.Name)
		}
	}
	report := Report{
		Object: ref,
		Summary: fmt.Sprintf("the driver is registered on %d of %d nodes and has %s", on, len(c.Nodes),
			c.volumesOf(driver.Name)),
		Next: "its classes can be used",
	}
	silent := componentsOf(driver.Name)
	for _, reason := range []verdict.Reason{
		verdict.ProvisionerSilent, verdict.AttacherSilent, verdict.ResizerSilent, verdict.SnapshotterSilent,
	} {
		of := silent[reason]
		if state, lease := c.healthOf(of); state == expired {
			f := findingAbout(ref, new(renewTime(lease))).waits(reason, Administrator,
				"%s, which shows no sign of life", of.name)
			f.Evidence = c.leaseEvidence(of)
			f.Fix = []Step{{Text: "See whether its pod runs", Command: "kubectl get pods -A"}}
			report.Findings = append(report.Findings, c.byRunner(of, f))
		}
	}
	if on == 0 && len(c.Nodes) > 0 && !c.lacks(CSINode) {
		f := findingAbout(ref, nil).waits(verdict.DriverNotRegistered, Administrator,
			"a node that it is registered on: there is none")
		f.Evidence = []Evidence{{ref, "nodes with the driver", "none", "CSINodes that list it"}}
		f.Fix = c.registerFix(driver.Name, without[0])
		report.Findings = append(report.Findings, c.byNodePlugin(driver.Name, without[0], f))
	} else if len(without) > 0 && len(without) <= mostNear {
		report.Summary += "; not on " + strings.Join(without, ", ")
	}
	return c.finish(report, CSINode, Lease)
}

func (c *Cluster) volumesOf(driver string) string {
	volumes, attached := 0, 0
	for _, pv := range c.Volumes {
		if pv.Spec.CSI != nil && pv.Spec.CSI.Driver == driver {
			volumes++
			attached += len(c.index.attachments[pv.Name])
		}
	}
	return fmt.Sprintf("%s, %s", counted(volumes, "volume"), counted(attached, "attachment"))
}

// counted returns a number with its noun, which gets an s in the plural.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// explainCSINode says which drivers a node has, and how many volumes each may attach.
func (c *Cluster) explainCSINode(csiNode *storagev1.CSINode) Report {
	ref := Ref{Kind: CSINode, Name: csiNode.Name}
	report := Report{
		Object: ref, Summary: "no driver is registered on the node", Next: "pods with their volumes can start here",
	}
	var texts []string
	for _, d := range csiNode.Spec.Drivers {
		limit, used := c.attachLimit(csiNode.Name, d.Name)
		text := fmt.Sprintf("%s with %d attached", d.Name, used)
		if limit >= 0 {
			text += fmt.Sprintf(" of at most %d", limit)
		}
		texts = append(texts, text)
	}
	if len(texts) > 0 {
		report.Summary = "registered drivers: " + strings.Join(texts, "; ")
	} else {
		report.Next = "no pod with a CSI volume can start here"
	}
	node := c.index.nodes[csiNode.Name]
	switch {
	case node == nil && !c.lacks(Node):
		f := findingAbout(ref, nil).about(Ref{Kind: Node, Name: csiNode.Name}).waits(verdict.NodeNotReady,
			Administrator,
			"node %s, which does not exist", csiNode.Name)
		f.Evidence = []Evidence{c.nodeEvidence(csiNode.Name)}
		f.Fix = []Step{{
			Text:    "If the node is gone for good, delete the CSINode",
			Command: shell.Command("kubectl delete csinode %s", csiNode.Name),
			Risk:    "none if the machine is off: the kubelet writes it again",
		}}
		report.Findings = []Finding{f}
	case node != nil:
		for _, f := range c.explainNode(node).Findings {
			if f.Cause == ref {
				f.Object = ref
				report.Findings = append(report.Findings, f)
			}
		}
	}
	return c.finish(report, Node, Attachment)
}

// driverSilent is about a class whose driver is not installed, or does not run the component that serves it.
func (c *Cluster) driverSilent(ref Ref, of component, reason verdict.Reason) []Finding {
	state, _ := c.healthOf(of)
	isAbsent := c.driverOf(of.driver) == nil && !c.lacks(CSIDriver)
	if state != expired && (state != noLease || !isAbsent) {
		return nil
	}
	f := findingAbout(ref, nil).about(Ref{Kind: CSIDriver, Name: of.driver}).waits(reason, Administrator,
		"%s, which shows no sign of life", of.name)
	f.Evidence = append([]Evidence{{
		ref, "driver", of.driver, "a driver that runs; installed are: " + c.installed(),
	}}, c.leaseEvidence(of)...)
	f.Fix = []Step{{
		Text:    "Install the driver, or correct the name (delete the class and create it again)",
		Command: "kubectl get csidriver",
	}}
	return []Finding{c.byRunner(of, f)}
}

// allDrivers are the names of drivers that an object of the cluster has.
func (c *Cluster) allDrivers() (all []string) {
	for _, driver := range c.CSIDrivers {
		all = append(all, driver.Name)
	}
	for _, class := range c.Classes {
		all = append(all, class.Provisioner)
	}
	for _, class := range c.SnapshotClasses {
		all = append(all, class.Driver)
	}
	for _, node := range c.CSINodes {
		for _, d := range node.Spec.Drivers {
			all = append(all, d.Name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
