package explain

import (
	"strings"

	groupv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumegroupsnapshot/v1"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

func contentRef(content *snapshotv1.VolumeSnapshotContent) Ref {
	return Ref{Kind: Content, Name: content.Name}
}

// claimHeld names the object for which a finalizer stays on a claim in deletion: the claim that is
// cloned from it, or the snapshot that is taken of it. With none, it is about the component that
// removes the finalizer.
func (c *Cluster) claimHeld(claim *corev1.PersistentVolumeClaim, finalizer string, f Finding) Finding {
	switch finalizer {
	case names.FinalizerCloneSource:
		for _, clone := range c.Claims {
			if clone.Namespace == claim.Namespace && clone.Status.Phase != corev1.ClaimBound &&
				isSource(clone, Claim, claim.Name) {
				return f.about(claimRef(clone)).waits(verdict.ClaimStillUsed, Itself,
					"claim %s, which is being cloned from it, to be bound", clone.Name)
			}
		}
		if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil && pv.Spec.CSI != nil {
			return c.bySilence(provisioner(pv.Spec.CSI.Driver), verdict.ProvisionerSilent, finalizer, f)
		}
	case names.FinalizerSnapshotClaim:
		for _, s := range c.Snapshots {
			ready := s.Status != nil && deref(s.Status.ReadyToUse)
			if s.Namespace == claim.Namespace && snapshotting.SourceClaim(s) == claim.Name && !ready {
				return f.about(snapshotRef(s)).waits(verdict.ClaimStillUsed, Itself,
					"snapshot %s, which is being taken of it, to be ready", s.Name)
			}
		}
		return c.bySilence(snapshotController, verdict.SnapshotterSilent, finalizer, f)
	}
	if strings.HasSuffix(finalizer, finalizerOfPopulators) {
		return c.heldByPopulator(claim, finalizer, f)
	}
	return c.heldBy(finalizer, f)
}

// isSource reports whether a claim is to be filled from the object of the kind and name.
func isSource(claim *corev1.PersistentVolumeClaim, kind Kind, name string) bool {
	if ref := claim.Spec.DataSourceRef; ref != nil {
		return ref.Kind == string(kind) && ref.Name == name && deref(ref.Namespace) == ""
	}
	ref := claim.Spec.DataSource
	return ref != nil && ref.Kind == string(kind) && ref.Name == name
}

// bySilence explains a finalizer that a component should have removed: by what keeps the component
// from running, and by [Cluster.heldBy] if it runs.
func (c *Cluster) bySilence(of component, reason verdict.Reason, finalizer string, f Finding) Finding {
	state, _ := c.healthOf(of)
	if state != expired && state != noLease {
		return c.heldBy(finalizer, f)
	}
	f = f.about(c.leaseRef(of)).waits(reason, Administrator,
		"%s to remove its finalizer; it shows no sign of life", of.name)
	f.Evidence = append(f.Evidence, c.leaseEvidence(of)...)
	f.Fix = []Step{{
		Text:    "See whether it runs. Do not remove the finalizer by hand: what it protects stays on the backend",
		Command: "kubectl get pods -A",
	}}
	return c.byRunner(of, f)
}

// snapshotHeld is the same for a snapshot in deletion.
func (c *Cluster) snapshotHeld(s *snapshotv1.VolumeSnapshot, finalizer string, f Finding) Finding {
	content := c.contentOf(s)
	group := c.index.groups[Ref{GroupSnapshot, s.Namespace, snapshotting.GroupOf(s)}.key()]
	switch {
	case group != nil && group.DeletionTimestamp == nil && holderOf(finalizer) != "":
		return deletedAlone(group, f)
	case finalizer == names.FinalizerSnapshotSource, finalizer == names.FinalizerRestoreSource:
		if user := c.restoring(s); user != nil {
			return f.about(claimRef(user)).waits(verdict.SnapshotStillUsed, Itself,
				"claim %s, which is being restored from it", user.Name)
		}
		if finalizer == names.FinalizerRestoreSource {
			return c.heldBy(finalizer, f)
		}
		return c.bySilence(snapshotController, verdict.SnapshotterSilent, finalizer, f)
	case finalizer == names.FinalizerSnapshotBound && content != nil && content.DeletionTimestamp != nil:
		return f.about(contentRef(content)).waits(
			verdict.FinalizerHeld, Itself, "its content %s to be deleted", content.Name,
		)
	case content != nil && content.Status != nil && content.Status.Error != nil:
		f.Cause = contentRef(content)
		return c.snapshotting(s, content, content.Spec.Driver, f)
	case holderOf(finalizer) != "":
		return c.bySilence(snapshotController, verdict.SnapshotterSilent, finalizer, f)
	}
	return c.heldBy(finalizer, f)
}

// explainContent says what a VolumeSnapshotContent waits for.
func (c *Cluster) explainContent(content *snapshotv1.VolumeSnapshotContent) Report {
	ref := contentRef(content)
	report := Report{Object: ref, Summary: "the content is there", Next: "snapshots and restores can use it"}
	f := Finding{Object: ref, Cause: ref, Since: &content.CreationTimestamp.Time}
	if content.DeletionTimestamp != nil {
		report.Summary, f.Since = "the content is being deleted", &content.DeletionTimestamp.Time
		for _, finalizer := range content.Finalizers {
			f.Evidence = []Evidence{{ref, "metadata.finalizers", finalizer, "absent"}}
			report.Findings = append(report.Findings, c.contentHeld(content, finalizer, f))
		}
	} else if found, refused := c.contentRefused(content, f); refused {
		report.Findings = []Finding{found}
	} else if content.Status != nil && content.Status.Error != nil {
		message := deref(content.Status.Error.Message)
		reason := verdict.ContentCheckFailed
		if content.Spec.Source.SnapshotHandle == nil && content.Status.SnapshotHandle == nil {
			reason = verdict.SnapshotFailed
		}
		proof := Evidence{ref, "status.error.message", message, "absent"}
		report.Findings = []Finding{driverFailed(f, reason, message, proof)}
	}
	return c.finish(report, Lease, Snapshot, Event)
}

// contentHeld explains a finalizer of a content in deletion: what the snapshotter refuses, the
// failed call, which may only be an event, or a driver that has no snapshotter any more.
func (c *Cluster) contentHeld(content *snapshotv1.VolumeSnapshotContent, finalizer string, f Finding) Finding {
	if finalizer != names.FinalizerSnapshotContent {
		return c.heldBy(finalizer, f)
	}
	if state, _ := c.healthOf(snapshotter(content.Spec.Driver)); state == expired || state == noLease {
		return c.bySilence(snapshotter(content.Spec.Driver), verdict.SnapshotterSilent, finalizer, f)
	}
	if found, refused := c.contentRefused(content, f); refused {
		return found
	}
	if event := c.lastEvent(f.Object, "SnapshotDeleteError"); event != nil {
		return driverFailed(f, verdict.ContentDeleteFailed, event.Message, eventEvidence(event, c.Now))
	}
	if content.Status != nil && content.Status.Error != nil {
		message := deref(content.Status.Error.Message)
		return driverFailed(f, verdict.ContentDeleteFailed, message, Evidence{
			f.Object, "status.error.message", message, "absent",
		})
	}
	return c.heldBy(finalizer, f)
}

// deletedAlone is about a member of a group snapshot that is being deleted without its group.
func deletedAlone(group *groupv1.VolumeGroupSnapshot, f Finding) Finding {
	f = f.about(groupRef(group)).waits(verdict.SnapshotGroupAlive, User,
		"its group snapshot %s to be deleted: a member goes with its group", group.Name)
	f.Evidence = append(f.Evidence, Evidence{groupRef(group), "metadata.deletionTimestamp", "absent", "a time"})
	f.Fix = []Step{{
		Text:    "Delete the group snapshot if none of its members is needed",
		Command: shell.Command("kubectl -n %s delete volumegroupsnapshot %s", group.Namespace, group.Name),
		Risk:    "with the deletion policy Delete the snapshots of all members are destroyed",
	}}
	return f
}

// driverFailed is about a call for a snapshot that the driver answered with an error.
func driverFailed(f Finding, reason verdict.Reason, message string, proof Evidence) Finding {
	code, words := rpcCode(message)
	actor, advice := rpcAdvice(code)
	f = f.waits(reason, actor, "the driver, whose last call for it failed: %s", quote(firstLine(words)))
	f.Evidence = append(f.Evidence, proof)
	again := Step{
		Text:    "It is repeated by itself. Do not remove the finalizer: the snapshot would stay on the backend",
		Command: shell.Command("kubectl describe %s %s", f.Object.Kind.Short(), f.Object.Name).In(f.Object.Namespace),
	}
	if f.Evidence[0].Field != "metadata.finalizers" { // it is not being deleted
		again.Text = "It is repeated by itself"
	}
	f.Fix = []Step{{Text: advice}, again}
	return f
}

// failedDeletion is about the volume of a claim in deletion, if its own deletion failed: the event
// is on the volume, which a reader of the namespace does not see.
func (c *Cluster) failedDeletion(claim *corev1.PersistentVolumeClaim) []Finding {
	pv := c.index.volumes[claim.Spec.VolumeName]
	if pv == nil || c.lastEvent(volumeRef(pv), "VolumeFailedDelete") == nil {
		return nil
	}
	findings := c.reclaiming(pv)
	for i := range findings {
		findings[i].Object, findings[i].Since = claimRef(claim), &claim.DeletionTimestamp.Time
	}
	return findings
}
