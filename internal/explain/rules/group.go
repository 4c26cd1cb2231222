package explain

import (
	"fmt"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

func groupRef(g *groupv1.VolumeGroupSnapshot) Ref { return Ref{GroupSnapshot, g.Namespace, g.Name} }

func groupContentRef(content *groupv1.VolumeGroupSnapshotContent) Ref {
	return Ref{Kind: GroupContent, Name: content.Name}
}

// explainGroup follows a VolumeGroupSnapshot to the point where its members can be restored.
func (c *Cluster) explainGroup(g *groupv1.VolumeGroupSnapshot) Report {
	members := c.membersOf(g)
	report := Report{Object: groupRef(g), Summary: "the group snapshot is not ready"}
	switch {
	case g.DeletionTimestamp != nil:
		report.Summary, report.Findings = "the group snapshot is being deleted", c.groupDeletion(g)
	case snapshotting.IsReady(g):
		report.Summary = fmt.Sprintf("the group snapshot is ready, with %s", counted(len(members), "snapshot"))
		report.Next = "claims can be restored from its snapshots"
		report.Findings = c.membersPending(g, members)
	default:
		report.Findings = []Finding{c.groupPending(g)}
	}
	return c.finish(report, GroupContent, GroupClass, Lease)
}

func (c *Cluster) membersOf(g *groupv1.VolumeGroupSnapshot) (members []*snapshotv1.VolumeSnapshot) {
	for _, s := range c.Snapshots {
		if s.Namespace == g.Namespace && snapshotting.GroupOf(s) == g.Name {
			members = append(members, s)
		}
	}
	return members
}

// membersPending is about snapshots of a group that is ready which are not.
func (c *Cluster) membersPending(g *groupv1.VolumeGroupSnapshot, members []*snapshotv1.VolumeSnapshot) []Finding {
	for _, s := range members {
		if s.Status != nil && deref(s.Status.ReadyToUse) {
			continue
		}
		f := findingAbout(groupRef(g), &s.CreationTimestamp.Time).about(snapshotRef(s)).waits(
			verdict.GroupMemberNotReady, Administrator, "its snapshot %s to be ready", s.Name)
		f.Evidence = []Evidence{{snapshotRef(s), "status.readyToUse", "not true", "true"}}
		f.Fix = []Step{{
			Text:    "Read what the snapshot says",
			Command: shell.Command("kubectl -n %s describe volumesnapshot %s", s.Namespace, s.Name),
		}}
		return []Finding{f}
	}
	return nil
}

func (c *Cluster) groupPending(g *groupv1.VolumeGroupSnapshot) Finding {
	f := findingAbout(groupRef(g), &g.CreationTimestamp.Time)
	s, missing, err := c.Gather.Group(keyOf(g))
	if unread := c.undecided(f.Object, missing, err); unread != nil {
		f = f.waits(verdict.ExplainUnread, Administrator, "what the snapshot-controller decides, which is not known")
		f.Evidence, f.Fix = unread, []Step{{Text: "Read the kinds that the evidence names as well"}}
		return f
	}
	why := snapshotting.DecideSnapshot(s, c.Now).Because()
	switch why.Reason {
	case verdict.GroupClassNotFound, verdict.GroupClassUnclear:
		return groupFinding(f, why, Ref{Kind: GroupClass, Name: deref(g.Spec.VolumeGroupSnapshotClassName)},
			"spec.volumeGroupSnapshotClassName", quoted(deref(g.Spec.VolumeGroupSnapshotClassName)),
			"a class that exists, or one default class for the driver")
	case verdict.GroupContentCreateFailed:
		return c.groupSourceUnfit(g, s, why, f)
	case verdict.GroupContentAbsent, verdict.GroupContentUnfit, verdict.GroupContentTaken:
		name := snapshotting.ContentName(g)
		return groupFinding(f, why, Ref{Kind: GroupContent, Name: name}, "the content that it names or is bound to",
			name,
			"a content that refers to this group")
	case verdict.GroupInvalid:
		return groupFinding(f, why, f.Object, "spec.source", why.Message, "a selector, or the name of a content")
	default:
	}
	if s.Content != nil {
		return c.groupTaking(s.Content, f)
	}
	if state, _ := c.healthOf(snapshotController); state == expired || state == noLease {
		return c.groupSilent(snapshotController, f)
	}
	return c.withOlderGroups(f.waits(verdict.SnapshotUnderWay, Itself, "the snapshot-controller to create its content"))
}

// groupFinding is about a group that the snapshot-controller refuses, in the words of its decision.
func groupFinding(f Finding, why verdict.Finding, cause Ref, field, value, wanted string) Finding {
	f = f.about(cause).by(why, "").waits(
		why.Reason, Administrator, "what the snapshot-controller needs: %s", why.Message,
	)
	f.Evidence = []Evidence{{f.Object, field, value, wanted}}
	f.Fix = []Step{{
		Text:    verdict.Advice(why.Reason),
		Command: shell.Command("kubectl -n %s describe volumegroupsnapshot %s", f.Object.Namespace, f.Object.Name),
	}}
	return f
}

// groupSourceUnfit names the claim for which no group can be taken. One that is not bound is followed.
func (c *Cluster) groupSourceUnfit(
	g *groupv1.VolumeGroupSnapshot, s snapshotting.Group, why verdict.Finding, f Finding,
) Finding {
	selector := "absent"
	if of, err := snapshotting.Selector(g); err == nil {
		selector = of.String()
	}
	found := groupFinding(f, why, f.Object, "spec.source.selector", selector,
		"labels of bound claims whose volumes are of one CSI driver")
	for _, source := range s.Sources {
		claim := source.Claim
		if claim.DeletionTimestamp == nil && claim.Status.Phase == corev1.ClaimBound {
			if source.Volume != nil && source.Volume.Spec.CSI != nil {
				found.Evidence = append(found.Evidence, Evidence{
					claimRef(claim), "driver of its volume", source.Volume.Spec.CSI.Driver, "",
				})
			}
			continue
		}
		found.Cause = claimRef(claim)
		found.Evidence = []Evidence{{
			claimRef(claim), "status.phase", string(claim.Status.Phase),
			"Bound, as every claim that the selector selects",
		}}
		if claim.DeletionTimestamp == nil {
			found.Reason = verdict.SnapshotSourceMissing // which is followed
			found.WaitsFor = fmt.Sprintf("claim %s, which its selector selects, to be bound", claim.Name)
		}
		break
	}
	return found
}

func (c *Cluster) groupSilent(of component, f Finding) Finding {
	f = f.about(c.leaseRef(of)).waits(verdict.SnapshotterSilent,
		Administrator,
		"%s, which shows no sign of life", of.name)
	f.Evidence = c.leaseEvidence(of)
	f.Fix = []Step{{
		Text:    "See whether it runs",
		Command: "kubectl get pods -A | grep -i snapshot",
	}}
	return c.withOlderGroups(c.byRunner(of, f))
}

// groupTaking is about a group whose content exists: the csi-snapshotter and the driver.
func (c *Cluster) groupTaking(content *groupv1.VolumeGroupSnapshotContent, f Finding) Finding {
	ref := groupContentRef(content)
	s, missing, err := c.Gather.GroupContent(content, snapshotting.ContentSettings{
		Driver: content.Spec.Driver, Naming: snapshotting.Naming{Prefix: "groupsnapshot", Length: -1},
	})
	f.Evidence = append(f.Evidence, c.undecided(ref, missing, err)...)
	why := snapshotting.DecideContent(s, c.Now).Because()
	class := deref(content.Spec.VolumeGroupSnapshotClassName)
	of := snapshotter(content.Spec.Driver)
	state, _ := c.healthOf(of)
	switch {
	case len(missing) == 0 && err == nil && why.Reason == verdict.ContentCreateFailed:
		f = f.by(why, "").about(Ref{Kind: GroupClass, Name: class}).waits(why.Reason, Administrator,
			"what the csi-snapshotter needs: %s", why.Message)
		f.Evidence = append(f.Evidence, Evidence{
			ref, "spec.volumeGroupSnapshotClassName", quoted(class),
			"a class that exists and whose parameters are valid",
		})
		f.Fix = []Step{{
			Text: verdict.Advice(why.Reason), Command: shell.Command("kubectl get volumegroupsnapshotclass"),
		}}
		return f
	case content.Status != nil && content.Status.Error != nil:
		message := deref(content.Status.Error.Message)
		reason := verdict.GroupContentCheckFailed
		if content.Spec.Source.GroupSnapshotHandles == nil && content.Status.VolumeGroupSnapshotHandle == nil {
			reason = verdict.GroupContentCallFailed
		}
		proof := Evidence{ref, "status.error.message", message, "absent"}
		return driverFailed(f.about(ref), reason, message, proof)
	case state == expired || state == noLease:
		return c.groupSilent(of, f)
	}
	f = f.about(ref).waits(verdict.SnapshotUnderWay, Itself, "driver %q to take the snapshots of the group",
		content.Spec.Driver)
	f.Evidence = append(f.Evidence, Evidence{ref, "status.readyToUse", "not true", "true"})
	f.Fix = []Step{{
		Text: "Both the snapshot-controller and the driver's csi-snapshotter need the feature gate " +
			"CSIVolumeGroupSnapshot, and the driver the capability",
		Command: shell.Command("kubectl describe volumegroupsnapshotcontent %s", content.Name),
	}}
	return c.withOlderGroups(f)
}

// groupDeletion explains a group that is being deleted and does not go.
func (c *Cluster) groupDeletion(g *groupv1.VolumeGroupSnapshot) (findings []Finding) {
	deleted := g.DeletionTimestamp.Time
	for _, finalizer := range g.Finalizers {
		f := findingAbout(groupRef(g), &deleted)
		f.Evidence = []Evidence{{f.Object, "metadata.finalizers", finalizer, "absent"}}
		findings = append(findings, c.groupHeld(g, finalizer, f))
	}
	return findings
}

func (c *Cluster) groupHeld(g *groupv1.VolumeGroupSnapshot, finalizer string, f Finding) Finding {
	if finalizer != names.FinalizerGroupSnapshot {
		return c.heldBy(finalizer, f)
	}
	for _, member := range c.membersOf(g) {
		if user := c.restoring(member); user != nil {
			return f.about(claimRef(user)).waits(verdict.SnapshotStillUsed, Itself,
				"claim %s, which is being restored from its snapshot %s", user.Name, member.Name)
		}
	}
	content := c.index.groupContents[snapshotting.ContentName(g)]
	if content != nil && content.DeletionTimestamp != nil {
		return f.about(groupContentRef(content)).waits(verdict.FinalizerHeld, Itself, "its content %s to be deleted",
			content.Name)
	}
	return c.bySilence(snapshotController, verdict.SnapshotterSilent, finalizer, f)
}

// explainGroupContent says what a VolumeGroupSnapshotContent waits for.
func (c *Cluster) explainGroupContent(content *groupv1.VolumeGroupSnapshotContent) Report {
	ref := groupContentRef(content)
	report := Report{Object: ref, Summary: "the content of the group is there", Next: "its snapshots can be restored"}
	switch {
	case content.DeletionTimestamp != nil:
		report.Summary = "the content of the group is being deleted"
		for _, finalizer := range content.Finalizers {
			f := findingAbout(ref, &content.DeletionTimestamp.Time)
			f.Evidence = []Evidence{{ref, "metadata.finalizers", finalizer, "absent"}}
			report.Findings = append(report.Findings, c.groupContentHeld(content, finalizer, f))
		}
	case content.Status == nil || !deref(content.Status.ReadyToUse):
		report.Summary = "the snapshots of the group are not taken"
		report.Findings = []Finding{c.groupTaking(content, findingAbout(ref, &content.CreationTimestamp.Time))}
	}
	return c.finish(report, Lease, GroupSnapshot, Event)
}

func (c *Cluster) groupContentHeld(
	content *groupv1.VolumeGroupSnapshotContent, finalizer string, f Finding,
) Finding {
	of := snapshotter(content.Spec.Driver)
	switch event := c.lastEvent(f.Object, "GroupSnapshotDeleteError"); {
	case finalizer != names.FinalizerGroupContent:
		return c.heldBy(finalizer, f)
	case event != nil:
		if found, is := c.told(event, f); is {
			return found
		}
		return driverFailed(f, verdict.GroupContentDeleteFailed, event.Message, eventEvidence(event, c.Now))
	case content.Status != nil && content.Status.Error != nil:
		message := deref(content.Status.Error.Message)
		return driverFailed(f, verdict.GroupContentDeleteFailed, message, Evidence{
			f.Object, "status.error.message", message, "absent",
		})
	}
	return c.bySilence(of, verdict.SnapshotterSilent, finalizer, f)
}

// memberWaits is about a snapshot that is a member of a group which is not ready. ok is false for others.
func (c *Cluster) memberWaits(s *snapshotv1.VolumeSnapshot, f Finding) (_ Finding, ok bool) {
	group := c.index.groups[Ref{GroupSnapshot, s.Namespace, snapshotting.GroupOf(s)}.key()]
	if group == nil || snapshotting.IsReady(group) {
		return f, false
	}
	f = f.about(groupRef(group)).waits(verdict.SourceNotReady, Administrator, "group snapshot %s, whose member it is",
		group.Name)
	f.Evidence = []Evidence{{groupRef(group), "status.readyToUse", "not true", "true"}}
	f.Fix = []Step{{
		Text:    "Read what the group snapshot says",
		Command: shell.Command("kubectl -n %s describe volumegroupsnapshot %s", group.Namespace, group.Name),
	}}
	return f, true
}
