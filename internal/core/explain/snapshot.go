package explain

import (
	"fmt"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/snapshotting"
	"github.com/purser-csi/purser/internal/core/verdict"
)

func snapshotRef(s *snapshotv1.VolumeSnapshot) Ref { return Ref{Snapshot, s.Namespace, s.Name} }

// explainSnapshot follows a VolumeSnapshot to the point where it can be restored.
func (c *Cluster) explainSnapshot(s *snapshotv1.VolumeSnapshot) Report {
	report := Report{Object: snapshotRef(s), Summary: "the snapshot is not ready"}
	switch ready := s.Status != nil && deref(s.Status.ReadyToUse); {
	case s.DeletionTimestamp != nil:
		report.Summary, report.Findings = "the snapshot is being deleted", c.snapshotDeletion(s)
	case ready:
		report.Summary, report.Next = "the snapshot is ready", "claims can be restored from it"
		if found, refused := c.snapshotRefused(s, Finding{Object: snapshotRef(s), Cause: snapshotRef(s)}); refused {
			report.Findings = []Finding{found}
		}
	default:
		report.Findings = []Finding{c.snapshotPending(s)}
	}
	return c.finish(report, Content, SnapshotClass, Lease)
}

func (c *Cluster) snapshotPending(s *snapshotv1.VolumeSnapshot) Finding {
	f := Finding{Object: snapshotRef(s), Cause: snapshotRef(s), Since: &s.CreationTimestamp.Time}
	f, refused := c.snapshotRefused(s, f)
	if refused {
		return f
	}
	return c.snapshotting(s, c.contentOf(s), c.driverOfSource(s), f)
}

// snapshotting is about a snapshot whose parts are there: the two controllers and the driver.
func (c *Cluster) snapshotting(s *snapshotv1.VolumeSnapshot, content *snapshotv1.VolumeSnapshotContent,
	driver string, f Finding,
) Finding {
	message := ""
	if content != nil && content.Status != nil && content.Status.Error != nil {
		message = deref(content.Status.Error.Message)
	} else if s.Status != nil && s.Status.Error != nil {
		message = deref(s.Status.Error.Message)
	}
	silent := snapshotController
	if content != nil {
		silent, driver = snapshotter(content.Spec.Driver), content.Spec.Driver
		f.Cause = Ref{Kind: Content, Name: content.Name}
		var refused bool
		if f, refused = c.contentRefused(content, f); refused {
			return f
		}
	}
	state, _ := c.healthOf(silent)
	switch {
	case message != "":
		code, words := rpcCode(message)
		actor, advice := rpcAdvice(code)
		f.Reason, f.Actor, f.WaitsFor = verdict.SnapshotFailed, actor, "the snapshot to be taken; the last attempt failed: "+firstLine(words)
		f.Evidence = []Evidence{{f.Cause, "status.error.message", message, "absent"}}
		f.Fix = []Step{{Text: advice}, {Text: "It is repeated by itself"}}
	case state == expired || state == noLease && c.olderThan(s.CreationTimestamp.Time, patience):
		f.Reason, f.Actor, f.Cause = verdict.SnapshotterSilent, Administrator, Ref{Kind: Lease, Name: silent.lease}
		f.WaitsFor = silent.name + ", which shows no sign of life"
		f.Evidence = c.leaseEvidence(silent)
		f.Fix = []Step{{Text: "The snapshot-controller runs once in a cluster, a csi-snapshotter beside each driver: see whether both do", Command: "kubectl get pods -A | grep -i snapshot"}}
	default:
		f.Reason, f.Actor, f.WaitsFor = verdict.SnapshotUnderWay, Itself, fmt.Sprintf("driver %q to finish the snapshot", driver)
	}
	return f
}

func (c *Cluster) contentOf(s *snapshotv1.VolumeSnapshot) *snapshotv1.VolumeSnapshotContent {
	return c.index.contents[snapshotting.ContentName(s)]
}

// snapshotDeletion explains a snapshot that is being deleted and does not go.
func (c *Cluster) snapshotDeletion(s *snapshotv1.VolumeSnapshot) []Finding {
	deleted := s.DeletionTimestamp.Time
	var findings []Finding
	for _, finalizer := range s.Finalizers {
		f := Finding{Object: snapshotRef(s), Cause: snapshotRef(s), Since: &deleted}
		f.Evidence = []Evidence{{snapshotRef(s), "metadata.finalizers", finalizer, "absent"}}
		if user := c.restoring(s); user != nil && strings.HasSuffix(finalizer, "as-source-protection") {
			f.Reason, f.Actor, f.Cause = verdict.SnapshotStillUsed, Itself, claimRef(user)
			f.WaitsFor = fmt.Sprintf("claim %s, which is being restored from it", user.Name)
			findings = append(findings, f)
			continue
		}
		if content := c.contentOf(s); content != nil && content.Status != nil && content.Status.Error != nil {
			f.Cause = Ref{Kind: Content, Name: content.Name}
			found := c.snapshotting(s, content, content.Spec.Driver, f)
			findings = append(findings, found)
			continue
		}
		findings = append(findings, c.heldBy(finalizer, f))
	}
	return findings
}

// restoring returns a claim that is not bound yet and has the snapshot as its source; nil for none.
func (c *Cluster) restoring(s *snapshotv1.VolumeSnapshot) *corev1.PersistentVolumeClaim {
	for _, claim := range c.Claims {
		source := claim.Spec.DataSourceRef
		if claim.Namespace == s.Namespace && claim.Spec.VolumeName == "" && source != nil &&
			source.Kind == string(Snapshot) && source.Name == s.Name {
			return claim
		}
	}
	return nil
}
