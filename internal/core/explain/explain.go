package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explainable are the kinds that [Cluster.Explain] takes.
var Explainable = []Kind{Claim, Volume, Pod, Attachment, Snapshot, Node, Class, Namespace}

// Explain answers about one object. An object that is not there, or a kind that was not read, gives the state [Unknown].
func (c *Cluster) Explain(ref Ref) Report {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	switch ref.Kind {
	case Claim:
		if claim := c.index.claims[key]; claim != nil {
			return c.explainClaim(claim)
		}
	case Volume:
		if pv := c.index.volumes[ref.Name]; pv != nil {
			return c.explainVolume(pv)
		}
	case Pod:
		if pod := c.index.pods[key]; pod != nil {
			return c.explainPod(pod)
		}
	case Attachment:
		for _, va := range c.Attachments {
			if va.Name == ref.Name {
				return c.explainAttachment(va)
			}
		}
	case Snapshot:
		if s := c.index.snapshots[key]; s != nil {
			return c.explainSnapshot(s)
		}
	case Node:
		if node := c.index.nodes[ref.Name]; node != nil {
			return c.explainNode(node)
		}
	case Class:
		if class := c.index.classes[ref.Name]; class != nil {
			return c.explainClass(class)
		}
	case Namespace:
		if ns := c.index.namespaces[ref.Name]; ns != nil {
			return c.explainNamespace(ns)
		}
	}
	return c.absent(ref)
}

func (c *Cluster) absent(ref Ref) Report {
	report := Report{Object: ref, State: Unknown, Summary: fmt.Sprintf("there is no %s %q", ref.Kind, ref.Name)}
	if cause, unread := c.Unread[ref.Kind]; unread {
		report.Summary = fmt.Sprintf("cannot tell: %ss were not read", ref.Kind)
		report.Unread = []string{unreadText(ref.Kind, cause)}
	}
	return report
}

// Stuck returns a report on each object that is not getting on, in one namespace, or in all if it is empty. Cluster-scoped objects
// are left out of the answer for one namespace.
func (c *Cluster) Stuck(namespace string) []Report {
	var all []Report
	add := func(report Report) {
		if report.State == Stuck && (namespace == "" || report.Object.Namespace == namespace) {
			all = append(all, report)
		}
	}
	for _, claim := range c.Claims {
		if claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound && !wantsChange(claim) && c.holdsItsVolume(claim) {
			continue // nearly all
		}
		add(c.explainClaim(claim))
	}
	for _, pod := range c.Pods {
		if pod.DeletionTimestamp != nil || len(podVolumes(pod)) > 0 && !isStarted(pod) {
			add(c.explainPod(pod))
		}
	}
	for _, s := range c.Snapshots {
		add(c.explainSnapshot(s))
	}
	for _, ns := range c.Namespaces {
		if namespace == "" || namespace == ns.Name {
			all = append(all, c.namespaceReports(ns)...)
		}
	}
	for _, report := range c.quotaReports() {
		add(report)
	}
	if namespace == "" {
		for _, pv := range c.Volumes {
			add(c.explainVolume(pv))
		}
		for _, va := range c.Attachments {
			add(c.explainAttachment(va))
		}
		for _, node := range c.Nodes {
			if !isReady(node) {
				add(c.explainNode(node))
			}
		}
	}
	return all
}

func wantsChange(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return wants.Cmp(has) > 0 || deref(claim.Spec.VolumeAttributesClassName) != deref(claim.Status.CurrentVolumeAttributesClassName)
}

func (c *Cluster) holdsItsVolume(claim *corev1.PersistentVolumeClaim) bool {
	return len(c.boundClaim(claim)) == 0
}

// finish fills in the state, and what of the input could have changed the answer.
func (c *Cluster) finish(report Report, used ...Kind) Report {
	report.State = Well
	if len(report.Findings) > 0 {
		report.State = Stuck
		report.Next = ""
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	for _, kind := range used {
		if cause, unread := c.Unread[kind]; unread {
			report.Unread = append(report.Unread, unreadText(kind, cause))
		} else if c.NoneInDump[kind] && len(report.Findings) > 0 {
			report.Unread = append(report.Unread, fmt.Sprintf("the dump has no %s; if it left them out, the answer may be another", kind))
		}
	}
	return report
}

// rank puts findings that a person can act on before those that go on by themselves.
func rank(f Finding) int {
	if f.Actor == Itself {
		return 1
	}
	return 0
}

func unreadText(kind Kind, cause string) string {
	return fmt.Sprintf("%ss were not read (%s)", kind, cause)
}

// UnreadTexts names all kinds that were not read.
func (c *Cluster) UnreadTexts() []string {
	var texts []string
	for kind, cause := range c.Unread {
		texts = append(texts, unreadText(kind, cause))
	}
	slices.Sort(texts)
	return texts
}
