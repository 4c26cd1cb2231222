package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/verdict"
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
			f.Evidence = append(f.Evidence, Evidence{f.Object, "status.conditions[" + string(condition.Type) + "]", condition.Message, ""})
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
		f.Fix = []Step{{Text: "The conditions name the kinds and the finalizers that are left", Command: "kubectl get namespace " + ns.Name + " -o yaml"}}
	}
	report := Report{
		Object:   f.Object,
		Summary:  "the namespace has been terminating for " + age(c.Now.Sub(since)),
		Findings: append(findings, f),
	}
	return []Report{c.finish(report, Claim, Pod)}
}

// quotaReports finds controllers that cannot create a claim, or a pod with an ephemeral volume,
// because of a quota. There is no object to explain but the event of the controller that was
// refused.
func (c *Cluster) quotaReports() []Report {
	var all []Report
	seen := map[Ref]bool{}
	for _, event := range c.Events {
		about := event.InvolvedObject
		ref := Ref{Kind(about.Kind), about.Namespace, about.Name}
		if seen[ref] || !strings.Contains(event.Message, "exceeded quota") || !mentionsStorage(event.Message) ||
			c.olderThan(eventTime(event), quotaEventAge) {
			continue
		}
		seen[ref] = true
		name := quotaName(event.Message)
		f := Finding{
			Reason: verdict.QuotaExceeded, Object: ref, Cause: Ref{Quota, about.Namespace, name}, Actor: Administrator,
			WaitsFor: fmt.Sprintf("room in ResourceQuota %q of namespace %q for its claim", name, about.Namespace),
			Evidence: append([]Evidence{eventEvidence(event, c.Now)}, c.quotaEvidence(about.Namespace, name)...),
			Fix:      []Step{{Text: "Raise the quota, or delete claims that are not needed", Command: fmt.Sprintf("kubectl -n %s describe resourcequota %s", about.Namespace, name), Risk: "deleting a claim deletes its data with policy Delete"}},
		}
		all = append(all, c.finish(Report{
			Object:   ref,
			Summary:  "its claim was not admitted",
			Findings: []Finding{f},
		}, Quota))
	}
	return all
}

// quotaEventAge is how long a refusal counts: a controller that still tries repeats it.
const quotaEventAge = 30 * time.Minute

func mentionsStorage(message string) bool {
	return strings.Contains(message, "requests.storage") || strings.Contains(message, "persistentvolumeclaims")
}

// quotaName reads the name out of "exceeded quota: NAME, requested: …".
func quotaName(message string) string {
	_, rest, _ := strings.Cut(message, "exceeded quota: ")
	name, _, _ := strings.Cut(rest, ",")
	return strings.TrimSpace(name)
}

func (c *Cluster) quotaEvidence(namespace, name string) []Evidence {
	i := slices.IndexFunc(c.Quotas, func(q *corev1.ResourceQuota) bool {
		return q.Namespace == namespace &&
			q.Name == name
	})
	if i < 0 {
		return nil
	}
	var out []Evidence
	quota := c.Quotas[i]
	for resource, hard := range quota.Status.Hard {
		if !mentionsStorage(string(resource)) {
			continue
		}
		used := quota.Status.Used[resource]
		out = append(out, Evidence{
			Ref{Quota, namespace, name},
			"status.used[" + string(resource) + "]", used.String(),
			"less than " + hard.String(),
		})
	}
	slices.SortFunc(out, func(a, b Evidence) int { return strings.Compare(a.Field, b.Field) })
	return out
}
