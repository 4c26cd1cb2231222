package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/size"
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
			c.olderThan(eventTime(event), quotaEventAge) || c.contradicted(ref, event) {
			continue
		}
		name := quotaName(event.Message)
		if !c.quotaIsFull(about.Namespace, name, event.Message) {
			continue
		}
		seen[ref] = true
		f := Finding{
			Reason: verdict.QuotaExceeded, Object: ref, Cause: Ref{Quota, about.Namespace, name}, Actor: Administrator,
			WaitsFor: fmt.Sprintf("room in ResourceQuota %q of namespace %q for its claim", name, about.Namespace),
			Evidence: append([]Evidence{eventEvidence(event, c.Now)}, c.quotaEvidence(about.Namespace, name)...),
			Fix: []Step{{
				Text:    "Raise the quota, or delete claims that are not needed",
				Command: shell.Command("kubectl -n %s describe resourcequota %s", about.Namespace, name),
				Risk:    "deleting a claim deletes its data with policy Delete",
			}},
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

// quotaOf returns the quota; nil if there is none of the name.
func (c *Cluster) quotaOf(namespace, name string) *corev1.ResourceQuota {
	for _, quota := range c.Quotas {
		if quota.Namespace == namespace && quota.Name == name {
			return quota
		}
	}
	return nil
}

// quotaRequested finds the amounts in "requested: requests.storage=5Gi,persistentvolumeclaims=1,
// used:".
var quotaRequested = regexp.MustCompile(`requested: ([^ ]*?),? used: `)

// quotaIsFull reports whether the quota that a refusal names exists and has no room for what the
// refusal says was requested. It is true where the quotas were not read.
func (c *Cluster) quotaIsFull(namespace, name, message string) bool {
	if c.lacks(Quota) || c.NoneInDump[Quota] {
		return true
	}
	quota := c.quotaOf(namespace, name)
	if quota == nil {
		return false
	}
	requested := map[corev1.ResourceName]int64{}
	if found := quotaRequested.FindStringSubmatch(message); found != nil {
		for item := range strings.SplitSeq(found[1], ",") {
			key, text, _ := strings.Cut(item, "=")
			amount, err := size.Parse(text)
			if err != nil {
				continue
			}
			if bytes, problem := size.Bytes(amount); problem == nil {
				requested[corev1.ResourceName(key)] = bytes
			}
		}
	}
	for key, hard := range quota.Status.Hard {
		if !mentionsStorage(string(key)) {
			continue
		}
		amount, named := requested[key]
		used, most := size.Sum(size.Clamp(quota.Status.Used[key]), amount), size.Clamp(hard)
		if used > most || !named && used == most {
			return true
		}
	}
	return false
}

func (c *Cluster) quotaEvidence(namespace, name string) []Evidence {
	quota := c.quotaOf(namespace, name)
	if quota == nil {
		return nil
	}
	var out []Evidence
	for key, hard := range quota.Status.Hard {
		if !mentionsStorage(string(key)) {
			continue
		}
		used := quota.Status.Used[key]
		out = append(out, Evidence{
			Ref{Quota, namespace, name},
			"status.used[" + string(key) + "]", used.String(),
			"less than " + hard.String(),
		})
	}
	slices.SortFunc(out, func(a, b Evidence) int { return strings.Compare(a.Field, b.Field) })
	return out
}
