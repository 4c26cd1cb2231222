package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// silentReason is the reason for which a user waits if a component shows no sign of life.
func silentReason(of component) verdict.Reason {
	switch of.sidecar {
	case scheduler.sidecar:
		return verdict.SchedulerSilent
	case controllerManager.sidecar:
		return verdict.BinderSilent
	case snapshotController.sidecar:
		return verdict.SnapshotterSilent
	}
	for reason, other := range componentsOf(of.driver) {
		if other.sidecar == of.sidecar {
			return reason
		}
	}
	return verdict.LeaseExpired
}

// componentsWith returns the components whose leader holds a lease of the name.
func (c *Cluster) componentsWith(lease string) (all []component) {
	for _, of := range []component{controllerManager, scheduler, snapshotController} {
		if of.isLease(lease) {
			all = append(all, of)
		}
	}
	for _, driver := range c.allDrivers() {
		for _, of := range componentsOf(driver) {
			if of.isLease(lease) {
				all = append(all, of)
			}
		}
	}
	slices.SortFunc(all, func(a, b component) int { return strings.Compare(a.name, b.name) })
	return all
}

// explainLease says who holds a lease, since when it was not renewed, and what runs the holder.
func (c *Cluster) explainLease(lease *coordinationv1.Lease) Report {
	ref := Ref{Lease, lease.Namespace, lease.Name}
	renewed := renewTime(lease)
	holder := deref(lease.Spec.HolderIdentity)
	report := Report{
		Object:  ref,
		Summary: fmt.Sprintf("it is held by %s and was renewed %s ago", quoted(holder), age(c.Now.Sub(renewed))),
		Next:    "its holder renews it in time",
	}
	ended := holder == "" || c.Now.After(leaseEnd(lease))
	components := c.componentsWith(lease.Name)
	switch {
	case lease.Namespace == "kube-node-lease":
		report.Findings = c.nodeLease(lease, ended)
	case len(components) > 0:
		of := components[0]
		report.Summary += "; its holder is " + of.name
		by := c.runnerOf(of)
		if by.workload != nil {
			report.Summary += ", which " + by.workload.String() + " runs"
		}
		_, newest := c.healthOf(of)
		if ended && newest != nil && newest.Namespace != lease.Namespace && !c.Now.After(leaseEnd(newest)) {
			report.Next = fmt.Sprintf("it is left over: %s renews the lease in namespace %s", of.name, newest.Namespace)
		} else if ended {
			f := findingAbout(ref, &renewed).waits(
				silentReason(of), Administrator, "%s, which shows no sign of life", of.name,
			)
			f.Evidence = c.leaseEvidence(of)
			f.Fix = []Step{{Text: "See whether its pod runs", Command: "kubectl get pods -A"}}
			report.Findings = []Finding{c.byRunner(of, f)}
		}
	case ended:
		report.Findings = []Finding{c.leaseExpired(lease, holder, renewed)}
	}
	if set := lease.Annotations[names.AnnIntentsUnreadable]; set != "" {
		report.Findings = append(report.Findings, journalSkipped(ref, set))
	}
	return c.finish(report, Pod)
}

// journalSkipped is about a journal whose text could not be read and was set aside.
func journalSkipped(ref Ref, text string) Finding {
	f := findingAbout(ref, nil).waits(verdict.JournalSkipped, Administrator,
		"a look at the volumes on the storage: the provisioner goes on without the requests of a journal that it "+
			"could not read")
	f.Evidence = []Evidence{{
		ref, "metadata.annotations[" + names.AnnIntentsUnreadable + "]", fmt.Sprintf("%d bytes", len(text)), "absent",
	}}
	f.Fix = []Step{{
		Text: verdict.Advice(verdict.JournalSkipped),
		Command: shell.Command("kubectl -n %s annotate lease %s %s-", ref.Namespace, ref.Name,
			names.AnnIntentsUnreadable),
		Risk: "the annotation has the only copy of the requests: compare the volumes first",
	}}
	return f
}

func (c *Cluster) nodeLease(lease *coordinationv1.Lease, ended bool) []Finding {
	node := c.index.nodes[lease.Name]
	if !ended || c.lacks(Node) {
		return nil
	}
	ref := Ref{Lease, lease.Namespace, lease.Name}
	renewed := renewTime(lease)
	f := findingAbout(ref, &renewed).about(Ref{Kind: Node, Name: lease.Name}).waits(verdict.NodeNotReady, Administrator,
		"the kubelet of node %s, which does not report", lease.Name)
	f.Evidence = []Evidence{c.nodeEvidence(lease.Name)}
	f.Fix = c.nodeFix(lease.Name)
	if node == nil {
		f.Fix = []Step{{Text: "The node does not exist any more; nothing waits for its lease"}}
	}
	return []Finding{f}
}

// leaseExpired is about a lease of a program that is none of the volume plane. Its pod has the name of the
// holder, or the holder begins with it.
func (c *Cluster) leaseExpired(lease *coordinationv1.Lease, holder string, renewed time.Time) Finding {
	ref := Ref{Lease, lease.Namespace, lease.Name}
	f := findingAbout(ref, &renewed).waits(verdict.LeaseExpired, Administrator,
		"its holder to renew it, or another one to take it over")
	f.Evidence = []Evidence{
		{ref, "spec.holderIdentity", quoted(holder), ""},
		{
			ref, "spec.renewTime", renewed.UTC().Format(time.RFC3339),
			fmt.Sprintf("at most %s ago", age(leaseEnd(lease).Sub(renewed))),
		},
	}
	f.Fix = []Step{{
		Text:    "See whether a pod of the program runs, and what its log says about the lease",
		Command: shell.Command("kubectl -n %s get pods", lease.Namespace),
	}}
	for _, pod := range c.Pods {
		if pod.Namespace == lease.Namespace && pod.Name != "" && strings.HasPrefix(holder, pod.Name) {
			f.Evidence = append(f.Evidence, readyEvidence(pod))
			if isPodReady(pod) {
				f.Evidence[len(f.Evidence)-1].Value, f.Evidence[len(f.Evidence)-1].Wanted = "True", ""
			} else {
				f = f.about(podRef(pod))
			}
			return f
		}
	}
	if !c.lacks(Pod) {
		f.Evidence = append(f.Evidence, Evidence{ref, "a pod of the holder's name", "none", "one that runs"})
	}
	return f
}
