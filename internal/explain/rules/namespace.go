package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

func namespaceRef(ns *corev1.Namespace) Ref { return Ref{Kind: Namespace, Name: ns.Name} }

// explainNamespace names the objects that keep a terminating namespace.
func (c *Cluster) explainNamespace(ns *corev1.Namespace) Report {
	report := Report{Object: namespaceRef(ns), Summary: "the namespace is " + string(ns.Status.Phase)}
	if reports := c.namespaceReports(ns); len(reports) > 0 {
		return reports[0]
	}
	report.Next = "its claims and pods can be explained one by one"
	return c.finish(report, Claim, Pod)
}

// namespaceReports returns one report for a namespace that is being deleted, none for any other.
func (c *Cluster) namespaceReports(ns *corev1.Namespace) []Report {
	if ns.DeletionTimestamp == nil {
		return nil
	}
	since := ns.DeletionTimestamp.Time
	f := Finding{
		Reason: verdict.NamespaceTerminating, Object: namespaceRef(ns), Cause: namespaceRef(ns),
		Since: &since, Actor: Itself,
	}
	f.WaitsFor = "the objects in it to be removed"
	for _, condition := range ns.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			f.Evidence = append(f.Evidence, Evidence{
				f.Object, "status.conditions[" + string(condition.Type) + "]", condition.Message, "",
			})
		}
	}
	var findings []Finding
	for _, claim := range c.Claims {
		if claim.Namespace != ns.Name || claim.DeletionTimestamp == nil {
			continue
		}
		for _, found := range c.claimDeletion(claim) {
			found.WaitsFor = fmt.Sprintf("claim %s, which waits for %s", claim.Name, found.WaitsFor)
			findings = append(findings, found)
		}
	}
	if c.olderThan(since, 10*patience) && len(findings) == 0 {
		f.Actor = Administrator
		f.Fix = []Step{{
			Text:    "The conditions name the kinds and the finalizers that are left",
			Command: shell.Command("kubectl get namespace %s -o yaml", ns.Name),
		}}
	}
	report := Report{
		Object:   f.Object,
		Summary:  "the namespace has been terminating for " + age(c.Now.Sub(since)),
		Findings: append(findings, f),
	}
	return []Report{c.finish(report, Claim, Pod)}
}
