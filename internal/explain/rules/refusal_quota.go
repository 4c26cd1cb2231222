package explain

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// quotaReports finds programs that cannot create a claim, or a pod with an ephemeral volume, because of a
// quota, and that are no workload whose pods and claims can be counted. There is no object to explain but
// the event of the program that was refused.
func (c *Cluster) quotaReports() []Report {
	var all []Report
	seen := map[Ref]bool{}
	for _, event := range c.Events {
		about := event.InvolvedObject
		ref := Ref{Kind(about.Kind), about.Namespace, about.Name}
		if seen[ref] || c.workloadOf(ref) != nil || !strings.Contains(event.Message, "exceeded quota") ||
			!mentionsStorage(event.Message) || c.olderThan(EventTime(event), quotaEventAge) ||
			c.contradicted(ref, event) {
			continue
		}
		f, ok := c.quotaExceeded(event.Message, Finding{Object: ref, Evidence: []Evidence{eventEvidence(event, c.Now)}})
		if !ok {
			continue
		}
		seen[ref] = true
		all = append(all, c.finish(Report{
			Object:   ref,
			Summary:  "its claim was not admitted",
			Findings: []Finding{f},
		}, Quota))
	}
	return all
}

// quotaExceeded is about a refusal for which a quota is still too small.
func (c *Cluster) quotaExceeded(message string, f Finding) (Finding, bool) {
	namespace, name := f.Object.Namespace, quotaName(message)
	if !c.quotaIsFull(namespace, name, message) {
		return f, false
	}
	f = quotaFinding(f, namespace, name, "its claim")
	if !mentionsStorage(message) {
		f = quotaFinding(f, namespace, name, "its pod")
	}
	f.Evidence = append(f.Evidence, c.quotaEvidence(namespace, name, message)...)
	return f, true
}

func quotaFinding(f Finding, namespace, name, what string) Finding {
	f = f.about(Ref{Quota, namespace, name}).waits(verdict.QuotaExceeded, Administrator,
		"room in ResourceQuota %q of namespace %q for %s", name, namespace, what)
	f.Fix = []Step{{
		Text:    "Raise the quota, or delete what is not needed",
		Command: shell.Command("kubectl -n %s describe resourcequota %s", namespace, name),
		Risk:    "deleting a claim deletes its data with policy Delete",
	}}
	return f
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

func requestedOf(message string) map[corev1.ResourceName]int64 {
	requested := map[corev1.ResourceName]int64{}
	if found := quotaRequested.FindStringSubmatch(message); found != nil {
		for item := range strings.SplitSeq(found[1], ",") {
			key, text, _ := strings.Cut(item, "=")
			if amount, err := size.Parse(text); err == nil {
				requested[corev1.ResourceName(key)] = amountOf(corev1.ResourceName(key), amount)
			}
		}
	}
	return requested
}

// amountOf returns a quantity as a number: thousandths of a CPU, else whole units.
func amountOf(key corev1.ResourceName, q resource.Quantity) int64 {
	if strings.HasSuffix(string(key), "cpu") {
		return size.Milli(q)
	}
	return size.Clamp(q)
}

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
	requested := requestedOf(message)
	for key := range hardOf(quota) {
		amount, named := requested[key]
		if !named && !mentionsStorage(string(key)) {
			continue
		}
		used, most, _ := c.usage(quota, key)
		if size.Sum(used, amount) > most || !named && used == most {
			return true
		}
	}
	return false
}

// hardOf returns the limits of a quota that the API server enforces: those of the status, and those of the
// spec before there is a status.
func hardOf(quota *corev1.ResourceQuota) corev1.ResourceList {
	if len(quota.Status.Hard) > 0 {
		return quota.Status.Hard
	}
	return quota.Spec.Hard
}

// usage returns how much of a resource is used, how much is allowed, and the field or the count that shows
// the use. Where the status does not have it, the claims of the namespace are counted.
func (c *Cluster) usage(quota *corev1.ResourceQuota, key corev1.ResourceName) (used, most int64, proof Evidence) {
	hard := hardOf(quota)[key]
	proof = Evidence{
		Ref{Quota, quota.Namespace, quota.Name}, "status.used[" + string(key) + "]", "0", "less than " + hard.String(),
	}
	if of, has := quota.Status.Used[key]; has {
		proof.Value = of.String()
		return amountOf(key, of), amountOf(key, hard), proof
	}
	if mentionsStorage(string(key)) {
		for _, claim := range c.Claims {
			if claim.Namespace == quota.Namespace && isCountedBy(quota, claimScopes(attributesClassesOf(claim)...)) {
				used = size.Sum(used, c.chargeOf(&claim.Spec)[key])
			}
		}
		of := size.Quantity(used)
		proof.Field, proof.Value = "sum of the claims for "+string(key), of.String()
	}
	return used, amountOf(key, hard), proof
}

func (c *Cluster) quotaEvidence(namespace, name, message string) []Evidence {
	quota := c.quotaOf(namespace, name)
	if quota == nil {
		return nil
	}
	requested := requestedOf(message)
	var out []Evidence
	for key := range hardOf(quota) {
		if _, named := requested[key]; named || mentionsStorage(string(key)) {
			_, _, proof := c.usage(quota, key)
			out = append(out, proof)
		}
	}
	slices.SortFunc(out, func(a, b Evidence) int { return strings.Compare(a.Field, b.Field) })
	return out
}

// quotaRefuses recomputes whether a quota of the namespace has room for an object, as admission does. It
// completes the finding for the first that has not.
func (c *Cluster) quotaRefuses(of quotaUse, f Finding) (Finding, bool) {
	quotas := slices.SortedFunc(slices.Values(c.Quotas), func(a, b *corev1.ResourceQuota) int {
		return cmp.Compare(a.Name, b.Name)
	})
	for _, quota := range quotas {
		if quota.Namespace != f.Object.Namespace || !isCountedBy(quota, of.isIn) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(hardOf(quota))) {
			amount, charged := of.charge[key]
			used, most, proof := c.usage(quota, key)
			if !charged || size.Sum(used, amount) <= most {
				continue
			}
			f = quotaFinding(f, quota.Namespace, quota.Name, of.what)
			hard := hardOf(quota)[key]
			proof.Wanted = fmt.Sprintf("at most %s with the %s that it needs", hard.String(), chargeText(key, amount))
			f.Evidence = append(append(f.Evidence, proof), scopeEvidence(quota)...)
			return f, true
		}
	}
	return f, false
}

func chargeText(key corev1.ResourceName, amount int64) string {
	switch {
	case strings.HasSuffix(string(key), "cpu"):
		return fmt.Sprintf("%dm", amount)
	case strings.HasSuffix(string(key), "storage") || strings.HasSuffix(string(key), "memory"):
		q := size.Quantity(amount)
		return q.String()
	}
	return fmt.Sprint(amount)
}
