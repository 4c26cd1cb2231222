package daytwo

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/size"
)

// SchemaUnused names the form of `unused -o json`.
const SchemaUnused = "purser.unused/v1"

// UnusedInput is all that a list of unused claims is made from.
type UnusedInput struct {
	Now         time.Time
	Claims      []corev1.PersistentVolumeClaim
	Pods        []corev1.Pod
	Deployments []appsv1.Deployment
	Sets        []appsv1.StatefulSet
	Jobs        []batchv1.CronJob
	// PodsUnread is set if the pods could not be read, so that a claim without the condition is
	// unknown.
	PodsUnread bool
	Unread     []string
}

// UnusedClaim is a claim that no pod uses.
type UnusedClaim struct {
	Namespace string     `json:"namespace"`
	Claim     string     `json:"claim"`
	Class     string     `json:"class,omitempty"`
	Bytes     int64      `json:"capacityBytes,omitempty"`
	Since     *time.Time `json:"since,omitempty"` // of the condition; absent if the claim has none
	Days      *int       `json:"days,omitempty"`
	// For are the workloads whose pods would use the claim, such as a StatefulSet with fewer
	// replicas.
	For []string `json:"for,omitempty"`
}

// UnusedReport is the answer of unused.
type UnusedReport struct {
	Schema string    `json:"schema"`
	Time   time.Time `json:"time"`
	Days   int       `json:"olderThanDays"`
	// Unused are claims whose condition says since when, long enough ago.
	Unused []UnusedClaim `json:"unused"`
	// Undated are claims that no pod uses now, and whose condition is absent.
	Undated []UnusedClaim `json:"undated,omitempty"`
	// Unknown are claims about which neither a condition nor pods say anything.
	Unknown int      `json:"unknown,omitempty"`
	Recent  int      `json:"recent"` // unused, and not long enough
	InUse   int      `json:"inUse"`
	Unread  []string `json:"unread,omitempty"`
}

// FindUnused returns the claims that have been unused for more than a number of days, by the
// condition that Kubernetes 1.37 keeps (KEP-5541). A claim without the condition is compared with
// the pods: these say that it is unused now, and not since when.
func FindUnused(in UnusedInput, days int) UnusedReport {
	r := UnusedReport{
		Schema: SchemaUnused, Time: in.Now.UTC(), Days: days, Unused: []UnusedClaim{}, Unread: in.Unread,
	}
	users := workloadsOf(in)
	pods := podsByNamespace(in.Pods)
	for i := range in.Claims {
		claim := &in.Claims[i]
		if !protection.TracksUse(claim) {
			continue
		}
		found := unusedClaim(claim, users)
		condition := unusedCondition(claim)
		switch {
		case condition != nil && condition.Status == corev1.ConditionTrue:
			found.Since = new(condition.LastTransitionTime.UTC())
			found.Days = new(int(in.Now.Sub(condition.LastTransitionTime.Time) / day))
			if *found.Days < days {
				r.Recent++
				continue
			}
			r.Unused = append(r.Unused, found)
		case condition != nil:
			r.InUse++
		case in.PodsUnread:
			r.Unknown++
		case len(protection.Referrers(pods[claim.Namespace], claim)) > 0:
			r.InUse++
		default:
			r.Undated = append(r.Undated, found)
		}
	}
	byAge := func(a, b UnusedClaim) int {
		if a.Since != nil && b.Since != nil && !a.Since.Equal(*b.Since) {
			return a.Since.Compare(*b.Since)
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Claim, b.Claim))
	}
	slices.SortFunc(r.Unused, byAge)
	slices.SortFunc(r.Undated, byAge)
	return r
}

const day = 24 * time.Hour

func podsByNamespace(pods []corev1.Pod) map[string][]corev1.Pod {
	all := map[string][]corev1.Pod{}
	for i := range pods {
		all[pods[i].Namespace] = append(all[pods[i].Namespace], pods[i])
	}
	return all
}

func unusedClaim(claim *corev1.PersistentVolumeClaim, users users) UnusedClaim {
	u := UnusedClaim{
		Namespace: claim.Namespace, Claim: claim.Name, Bytes: bytesOf(claim.Status.Capacity[corev1.ResourceStorage]),
	}
	if claim.Spec.StorageClassName != nil {
		u.Class = *claim.Spec.StorageClassName
	}
	u.For = users.of(claim)
	return u
}

// unusedCondition returns the condition Unused of a claim; nil for none, and for one whose status
// is neither True nor False.
func unusedCondition(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaimCondition {
	for i := range claim.Status.Conditions {
		c := &claim.Status.Conditions[i]
		if c.Type == corev1.PersistentVolumeClaimUnused &&
			(c.Status == corev1.ConditionTrue || c.Status == corev1.ConditionFalse) {
			return c
		}
	}
	return nil
}

// users are the workloads that name claims, by claim, and the StatefulSets that have made claims.
type users struct {
	byClaim map[types.NamespacedName][]string
	sets    []appsv1.StatefulSet
}

func workloadsOf(in UnusedInput) users {
	u := users{byClaim: map[types.NamespacedName][]string{}, sets: in.Sets}
	note := func(kind, namespace, name string, spec *corev1.PodSpec) {
		for i := range spec.Volumes {
			if source := spec.Volumes[i].PersistentVolumeClaim; source != nil {
				key := types.NamespacedName{Namespace: namespace, Name: source.ClaimName}
				u.byClaim[key] = append(u.byClaim[key], kind+"/"+name)
			}
		}
	}
	for i := range in.Deployments {
		d := &in.Deployments[i]
		note("deployment", d.Namespace, d.Name, &d.Spec.Template.Spec)
	}
	for i := range in.Sets {
		s := &in.Sets[i]
		note("statefulset", s.Namespace, s.Name, &s.Spec.Template.Spec)
	}
	for i := range in.Jobs {
		j := &in.Jobs[i]
		note("cronjob", j.Namespace, j.Name, &j.Spec.JobTemplate.Spec.Template.Spec)
	}
	return u
}

func (u users) of(claim *corev1.PersistentVolumeClaim) []string {
	found := slices.Clone(u.byClaim[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}])
	for i := range u.sets {
		if set := &u.sets[i]; set.Namespace == claim.Namespace && templateOf(set, claim.Name) != "" {
			found = append(found, "statefulset/"+set.Name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

var ordinal = regexp.MustCompile(`^[0-9]+$`)

// templateOf returns the template from which a StatefulSet makes the claim of that name; empty for
// none.
func templateOf(set *appsv1.StatefulSet, claim string) string {
	for i := range set.Spec.VolumeClaimTemplates {
		name := set.Spec.VolumeClaimTemplates[i].Name
		if rest, found := strings.CutPrefix(claim, name+"-"+set.Name+"-"); found && ordinal.MatchString(rest) {
			return name
		}
	}
	return ""
}

// ExitCode is 1 if there are unused claims, 2 if that is not known, and else 0.
func (r UnusedReport) ExitCode() int {
	switch {
	case len(r.Unused) > 0:
		return ExitFound
	case len(r.Undated) > 0 || r.Unknown > 0:
		return ExitUnknown
	}
	return 0
}

// Print prints the claims, the oldest first, and what they add up to.
func (r UnusedReport) Print(p *Page) {
	if len(r.Unused) > 0 {
		printUnused(p, r.Unused)
		p.Line(Plain, "%s unused for %s or more, %s in all.", plural(len(r.Unused), "claim"), plural(r.Days, "day"),
			Bytes(sum(r.Unused)))
	} else {
		p.Line(Plain, "No claim has said for %s or more that it is unused.", plural(r.Days, "day"))
	}
	if len(r.Undated) > 0 {
		p.Line(Plain, "")
		p.Line(Warning, "No pod uses these now; since when is unknown, as they have no condition Unused:")
		printUnused(p, r.Undated)
		p.Line(Plain, "The condition is kept by Kubernetes 1.37 and later, or by purser controllers with "+
			"--feature-gates=PersistentVolumeClaimUnusedSinceTime=true.")
	}
	if r.Unknown > 0 {
		p.Line(Warning, "%s without the condition, and the pods could not be read.", plural(r.Unknown, "claim"))
	}
	p.Line(Plain, "Others: %d unused for less, %d in use.", r.Recent, r.InUse)
	for _, text := range r.Unread {
		p.Line(Warning, "Not read: %s", text)
	}
}

func printUnused(p *Page, claims []UnusedClaim) {
	t := &table{head: []string{"NAMESPACE", "CLAIM", ">SIZE", "CLASS", ">DAYS", "SINCE", "WOULD BE USED BY"}}
	for _, c := range claims {
		days, since := "-", "-"
		if c.Since != nil {
			days, since = fmt.Sprint(*c.Days), c.Since.Format("2006-01-02")
		}
		t.add(
			Plain, c.Namespace, c.Claim, Bytes(c.Bytes), orDash(c.Class), days, since, orDash(strings.Join(c.For, ",")),
		)
	}
	t.print(p)
}

func sum(claims []UnusedClaim) (total int64) {
	for _, c := range claims {
		total = size.Sum(total, c.Bytes)
	}
	return total
}
