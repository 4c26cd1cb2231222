package explain

import (
	"cmp"
	"fmt"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// decideSnapshot returns the decision of the snapshot-controller about a VolumeSnapshot. It is nil
// for a member of a group, and where the input lacks a kind that the controller reads.
func (c *Cluster) decideSnapshot(vs *snapshotv1.VolumeSnapshot) snapshotting.Verdict {
	if snapshotting.GroupOf(vs) != "" {
		return nil
	}
	s, missing, err := c.Gather.Snapshot(types.NamespacedName{Namespace: vs.Namespace, Name: vs.Name})
	if len(missing) > 0 || err != nil {
		return nil
	}
	return snapshotting.DecideSnapshot(s, c.Now)
}

// contentRefused explains a snapshot by the decision of its driver's csi-snapshotter about the
// content, if it does not go on to ask the driver. One with the flags of upstream's manifests is
// assumed.
func (c *Cluster) contentRefused(content *snapshotv1.VolumeSnapshotContent, f Finding) (found Finding, refused bool) {
	s, missing, err := c.Gather.Content(content, snapshotting.ContentSettings{
		Driver: content.Spec.Driver, Naming: snapshotting.Naming{Prefix: "snapshot", Length: -1}, Lists: true,
	})
	if unread := c.undecided(f.Object, missing, err); unread != nil {
		f.Evidence = append(f.Evidence, unread...)
		return f, false
	}
	why := snapshotting.DecideContent(s, c.Now).Because()
	f = f.by(why, "")
	ref := Ref{Kind: Content, Name: content.Name}
	switch why.Reason {
	case verdict.ContentCreateFailed, verdict.ContentCheckFailed:
		class := deref(content.Spec.VolumeSnapshotClassName)
		f.Reason, f.Actor, f.Cause = why.Reason, Administrator, Ref{Kind: SnapshotClass, Name: class}
		const wanted = "a class that exists and whose parameters are valid"
		f.Evidence = []Evidence{{ref, "spec.volumeSnapshotClassName", quoted(class), wanted}}
		if class == "" || content.Spec.Source.SnapshotHandle == nil && content.Spec.Source.VolumeHandle == nil {
			f.Cause = ref
		}
	case verdict.ContentAwaitsFinalizer:
		f.Reason, f.Actor, f.Cause = why.Reason, Itself, ref
		f.Evidence = []Evidence{
			{
				ref, "metadata.finalizers", cmp.Or(strings.Join(content.Finalizers, ", "), "empty"),
				names.FinalizerSnapshotContent,
			},
			{
				ref, "spec.volumeSnapshotRef.uid", quoted(string(content.Spec.VolumeSnapshotRef.UID)),
				"the uid of the VolumeSnapshot",
			},
		}
		if c.olderThan(content.CreationTimestamp.Time, 2*patience) {
			f.Actor, f.Evidence = Administrator, append(f.Evidence, c.leaseEvidence(snapshotController)...)
		}
	case verdict.ContentAwaitsDeletion:
		f.Reason, f.Actor, f.Cause = why.Reason, User, ref
		deleted := content.DeletionTimestamp.UTC().String()
		f.Evidence = []Evidence{{ref, "metadata.deletionTimestamp", deleted, "the VolumeSnapshot is deleted as well"}}
	default:
		return f, false
	}
	f.WaitsFor = "what the csi-snapshotter needs: " + why.Message
	f.Fix = []Step{{
		Text:    verdict.Advice(why.Reason),
		Command: shell.Command("kubectl describe %s %s", f.Cause.Kind.Short(), f.Cause.Name),
	}}
	return f, true
}

// sourceClaim returns the claim that a snapshot is taken of; nil if there is none.
func (c *Cluster) sourceClaim(vs *snapshotv1.VolumeSnapshot) *corev1.PersistentVolumeClaim {
	return c.index.claims[types.NamespacedName{Namespace: vs.Namespace, Name: snapshotting.SourceClaim(vs)}]
}

// driverOfSource returns the driver of the volume that a snapshot is taken of; empty if it is not
// known.
func (c *Cluster) driverOfSource(vs *snapshotv1.VolumeSnapshot) string {
	claim := c.sourceClaim(vs)
	if claim == nil {
		return ""
	}
	if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil && pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return ""
}

// snapshotRefused explains a snapshot that the snapshot-controller refuses.
func (c *Cluster) snapshotRefused(vs *snapshotv1.VolumeSnapshot, f Finding) (found Finding, refused bool) {
	decided := c.decideSnapshot(vs)
	if decided == nil {
		return f, false
	}
	why := decided.Because()
	f = f.by(why, "")
	switch why.Reason {
	case verdict.SnapshotClassNotFound, verdict.SnapshotClassUnclear:
		return c.snapshotClassMissing(vs, why, f), true
	case verdict.SnapshotContentCreateFailed:
		return c.sourceUnfit(vs, why, f), true
	case verdict.SnapshotContentAbsent, verdict.SnapshotContentUnfit, verdict.SnapshotContentTaken,
		verdict.SnapshotNotBoundBack:
		name := snapshotting.ContentName(vs)
		waits := fmt.Sprintf("VolumeSnapshotContent %q; %s", name, why.Message)
		reason := why.Reason
		if reason == verdict.SnapshotContentAbsent {
			reason, waits = verdict.SnapshotSourceMissing, fmt.Sprintf(
				"VolumeSnapshotContent %q, which does not exist", name,
			)
		}
		return snapshotFinding(f, reason, Administrator, Ref{Kind: Content, Name: name}, waits,
			Evidence{
				f.Object, "the content that it names or is bound to", name, "a content that refers to this snapshot",
			}), true
	case verdict.SnapshotInvalid:
		return snapshotFinding(f, why.Reason, User, f.Object, "a valid source: "+why.Message, Evidence{
			f.Object, "spec.source", "of no kind, or of two", "a claim or a content",
		}), true
	default:
		return f, false
	}
}

func (c *Cluster) snapshotClassMissing(vs *snapshotv1.VolumeSnapshot, why verdict.Finding, f Finding) Finding {
	name := deref(vs.Spec.VolumeSnapshotClassName)
	cause := Ref{Kind: SnapshotClass, Name: name}
	what := fmt.Sprintf("VolumeSnapshotClass %q, which does not exist", name)
	wanted := "a class that exists; there are: " + strings.Join(c.snapshotClassNames(), ", ")
	if why.Reason == verdict.SnapshotClassUnclear {
		what = "a VolumeSnapshotClass: it names none, and its driver does not have exactly one default class"
		wanted = "a class, or one marked snapshot.storage.kubernetes.io/is-default-class; there are: " + strings.Join(
			c.snapshotClassNames(), ", ",
		)
	}
	return snapshotFinding(f, verdict.SnapshotClassMissing, Administrator, cause, what,
		Evidence{f.Object, "spec.volumeSnapshotClassName", quoted(name), wanted})
}

// sourceUnfit is about a claim that no snapshot can be taken of, as it is.
func (c *Cluster) sourceUnfit(vs *snapshotv1.VolumeSnapshot, why verdict.Finding, f Finding) Finding {
	name, claim := snapshotting.SourceClaim(vs), c.sourceClaim(vs)
	const field = "spec.source.persistentVolumeClaimName"
	switch {
	case claim == nil:
		return snapshotFinding(f, verdict.SnapshotSourceMissing, User, Ref{Claim, vs.Namespace, name},
			fmt.Sprintf("claim %q, which does not exist", name), Evidence{f.Object, field, name, "a claim that exists"})
	case claim.Status.Phase != corev1.ClaimBound:
		return snapshotFinding(f, verdict.SnapshotSourceMissing, User, claimRef(claim),
			fmt.Sprintf("claim %q to be bound", name),
			Evidence{f.Object, field, name + " is " + string(claim.Status.Phase), "Bound"})
	}
	return snapshotFinding(f, why.Reason, Administrator, claimRef(claim),
		"a source and a class that fit each other: "+why.Message,
		Evidence{f.Object, field, name, "a bound claim with a CSI volume of the class's driver"})
}

func snapshotFinding(f Finding, reason verdict.Reason, actor Actor, cause Ref, waits string, proof Evidence) Finding {
	f.Reason, f.Actor, f.Cause, f.WaitsFor = reason, actor, cause, waits
	f.Evidence = []Evidence{proof}
	f.Fix = []Step{{
		Text:    "Create what is missing, or create the snapshot again: its spec cannot be changed",
		Command: shell.Command("kubectl get %s", cause.Kind.Short()).In(cause.Namespace),
	}}
	return f
}

func (c *Cluster) snapshotClassNames() []string {
	var list []string
	for _, class := range c.SnapshotClasses {
		list = append(list, class.Name)
	}
	return list
}
