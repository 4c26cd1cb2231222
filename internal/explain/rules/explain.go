package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/size"
)

// Explainable are the kinds that [Cluster.Explain] takes.
var Explainable = []Kind{
	Claim, Volume, Pod, Attachment, Snapshot, Content, GroupSnapshot, GroupContent, Node, CSINode, CSIDriver, Class,
	AttributesClass, SnapshotClass, GroupClass, Namespace, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, Lease,
	Secret,
}

// explain answers about one object alone: what it waits for is not followed.
func (c *Cluster) explain(ref Ref) Report {
	key := ref.key()
	var report *Report
	switch ref.Kind {
	case Claim:
		report = about(c.index.claims[key], c.explainClaim)
	case Volume:
		report = about(c.index.volumes[ref.Name], c.explainVolume)
	case Pod:
		report = about(c.index.pods[key], c.explainPod)
	case Attachment:
		report = about(c.attachmentNamed(ref.Name), c.explainAttachment)
	case Snapshot:
		report = about(c.index.snapshots[key], c.explainSnapshot)
	case Content:
		report = about(c.index.contents[ref.Name], c.explainContent)
	case Node:
		report = about(c.index.nodes[ref.Name], c.explainNode)
	case Class:
		report = about(c.index.classes[ref.Name], c.explainClass)
	case GroupSnapshot:
		report = about(c.index.groups[key], c.explainGroup)
	case GroupContent:
		report = about(c.index.groupContents[ref.Name], c.explainGroupContent)
	case Deployment, StatefulSet, DaemonSet, ReplicaSet, Job:
		report = about(c.workloadOf(ref), c.explainWorkload)
	case Namespace:
		report = about(c.index.namespaces[ref.Name], c.explainNamespace)
	default:
	}
	if report == nil {
		return c.absent(ref)
	}
	return *report
}

// about returns nil for an object that is not there.
func about[T any](object *T, explain func(*T) Report) *Report {
	if object == nil {
		return nil
	}
	report := explain(object)
	return &report
}

func (c *Cluster) attachmentNamed(name string) *storagev1.VolumeAttachment {
	for _, va := range c.Attachments {
		if va.Name == name {
			return va
		}
	}
	return nil
}

func (c *Cluster) absent(ref Ref) Report {
	report := Report{Object: ref, State: Unknown, Summary: fmt.Sprintf("there is no %s %q", ref.Kind, ref.Name)}
	if cause, unread := c.Unread[ref.Kind]; unread {
		report.Summary = fmt.Sprintf("cannot tell: %s were not read", ref.Kind.plural())
		report.Unread = []string{unreadText(ref.Kind, cause)}
	}
	return report
}

// Stuck returns a report on each object that is not getting on, in one namespace, or in all if it
// is empty. Cluster-scoped objects are left out of the answer for one namespace.
func (c *Cluster) Stuck(namespace string) []Report {
	all := slices.Concat(c.claimReports(), c.podReports(), c.quotaReports(), c.refusedReports())
	for _, s := range c.Snapshots {
		all = append(all, c.explainSnapshot(s))
	}
	for _, g := range c.GroupSnapshots {
		all = append(all, c.explainGroup(g))
	}
	all = slices.DeleteFunc(all, func(r Report) bool {
		return r.State != Stuck || namespace != "" && r.Object.Namespace != namespace
	})
	for _, ns := range c.Namespaces {
		if namespace == "" || namespace == ns.Name {
			all = append(all, c.namespaceReports(ns)...)
		}
	}
	if namespace == "" {
		all = append(all, c.clusterReports()...)
	}
	for i := range all {
		all[i] = c.toTheRoot(all[i])
	}
	return all
}

// claimReports leaves out nearly all claims: those that are bound and want no change.
func (c *Cluster) claimReports() (all []Report) {
	for _, claim := range c.Claims {
		if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound || wantsChange(claim) ||
			!c.holdsItsVolume(claim) || len(c.claimHealth(claim)) > 0 {
			all = append(all, c.explainClaim(claim))
		}
	}
	return all
}

func (c *Cluster) podReports() (all []Report) {
	for _, pod := range c.Pods {
		if pod.DeletionTimestamp != nil || len(podVolumes(pod)) > 0 && !isStarted(pod) {
			all = append(all, c.explainPod(pod))
		}
	}
	return all
}

// clusterReports are about objects without a namespace that are stuck.
func (c *Cluster) clusterReports() (all []Report) {
	for _, pv := range c.Volumes {
		if !binding.Matchable(pv) { // what keeps a claim from it is said of the claim
			all = append(all, c.explainVolume(pv))
		}
	}
	for _, va := range c.Attachments {
		all = append(all, c.explainAttachment(va))
	}
	for _, node := range c.Nodes {
		if !isReady(node) || len(c.storageHealth(node.Name)) > 0 {
			all = append(all, c.explainNode(node))
		}
	}
	return slices.DeleteFunc(all, func(r Report) bool { return r.State != Stuck })
}

func wantsChange(claim *corev1.PersistentVolumeClaim) bool {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return size.Compare(wants, has) > 0 ||
		deref(claim.Spec.VolumeAttributesClassName) != deref(claim.Status.CurrentVolumeAttributesClassName)
}

func (c *Cluster) holdsItsVolume(claim *corev1.PersistentVolumeClaim) bool {
	return len(c.boundClaim(claim)) == 0
}

// finish fills in the state, and what of the input could have changed the answer.
func (c *Cluster) finish(report Report, used ...Kind) Report {
	report = c.withThrottled(report)
	report.State = Well
	if len(report.Findings) > 0 {
		report.State = Stuck
		report.Next = ""
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int { return cmp.Compare(rank(a), rank(b)) })
	for _, f := range report.Findings {
		if !slices.Contains(used, f.Cause.Kind) {
			used = append(used, f.Cause.Kind)
		}
	}
	for _, kind := range used {
		if cause, unread := c.Unread[kind]; unread {
			report.Unread = append(report.Unread, unreadText(kind, cause))
		} else if c.NoneInDump[kind] && len(report.Findings) > 0 {
			report.Unread = append(report.Unread, fmt.Sprintf(
				"the dump has no %s; if it left them out, the answer may be another", kind.plural(),
			))
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
	if namespace, is := strings.CutPrefix(cause, OnlyIn); is {
		return fmt.Sprintf(
			"%s were read in namespace %s only", kind.plural(), strings.TrimSuffix(namespace, " may be read"),
		)
	}
	return fmt.Sprintf("%s were not read (%s)", kind.plural(), cause)
}

// OnlyIn begins the cause of a kind that was read in one namespace.
const OnlyIn = "only those in namespace "

// CannotTell reports whether claims or pods were not read, so that it is not known that nothing is
// stuck.
func (c *Cluster) CannotTell() bool {
	for _, kind := range []Kind{Claim, Pod} {
		if cause, unread := c.Unread[kind]; unread && !strings.HasPrefix(cause, OnlyIn) {
			return true
		}
	}
	return false
}

// missingPermission begins the cause of a kind that the reader may not list.
const missingPermission = "the permission to list "

// UnreadTexts names all kinds that were not read. Those that the reader may not list are one text.
func (c *Cluster) UnreadTexts() []string {
	var texts, forbidden []string
	for kind, cause := range c.Unread {
		if strings.HasPrefix(cause, missingPermission) {
			forbidden = append(forbidden, kind.plural())
			continue
		}
		texts = append(texts, unreadText(kind, cause))
	}
	if slices.Sort(forbidden); len(forbidden) > 1 {
		texts = append(texts, strings.Join(forbidden, ", ")+" were not read (the permission to list them is missing)")
	} else {
		for kind, cause := range c.Unread {
			if strings.HasPrefix(cause, missingPermission) {
				texts = append(texts, unreadText(kind, cause))
			}
		}
	}
	slices.Sort(texts)
	return texts
}
