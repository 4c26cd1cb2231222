package explain

import (
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	snapshotting "github.com/purser-csi/purser/internal/snapshot/rules"
	"github.com/purser-csi/purser/internal/verdict"
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
		if found, refused := c.snapshotRefused(s, findingAbout(snapshotRef(s), nil)); refused {
			report.Findings = []Finding{found}
		}
	default:
		report.Findings = []Finding{c.snapshotPending(s)}
	}
	return c.finish(report, Content, SnapshotClass, Lease)
}

func (c *Cluster) snapshotPending(s *snapshotv1.VolumeSnapshot) Finding {
	f := findingAbout(snapshotRef(s), &s.CreationTimestamp.Time)
	if found, is := c.memberWaits(s, f); is {
		return found
	}
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
		status := Evidence{f.Cause, "status.error.message", message, "absent"}
		if found, is := c.secretForbidden(message, status, c.secretsOfSnapshot(s, content), f); is {
			return found
		}
		answer := readAnswer(driver, message)
		f.Reason, f.Actor = verdict.SnapshotFailed, answer.actor
		f.WaitsFor = "the snapshot to be taken; the last attempt failed: " + quote(firstLine(answer.words))
		f.Evidence = []Evidence{status}
		f.Fix = []Step{answer.step, {Text: "It is repeated by itself"}}
	case state == expired || state == noLease && c.olderThan(s.CreationTimestamp.Time, patience):
		f = f.about(c.leaseRef(silent)).waits(verdict.SnapshotterSilent, Administrator,
			"%s, which shows no sign of life", silent.name)
		f.Evidence = c.leaseEvidence(silent)
		f.Fix = []Step{{
			Text: "The snapshot-controller runs once in a cluster, a csi-snapshotter beside each driver: see " +
				"whether both do",
			Command: "kubectl get pods -A | grep -i snapshot",
		}}
		f = c.withOlderGroups(c.byRunner(silent, f))
	default:
		f.Reason, f.Actor, f.WaitsFor = verdict.SnapshotUnderWay, Itself, fmt.Sprintf(
			"driver %q to finish the snapshot", driver,
		)
		f = c.withOlderGroups(f)
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
		f := findingAbout(snapshotRef(s), &deleted)
		f.Evidence = []Evidence{{snapshotRef(s), "metadata.finalizers", finalizer, "absent"}}
		findings = append(findings, c.snapshotHeld(s, finalizer, f))
	}
	return findings
}

// restoring returns a claim that is not bound yet and has the snapshot as its source; nil for none.
func (c *Cluster) restoring(s *snapshotv1.VolumeSnapshot) *corev1.PersistentVolumeClaim {
	for _, claim := range c.Claims {
		if claim.Namespace == s.Namespace && claim.Spec.VolumeName == "" && isSource(claim, Snapshot, s.Name) {
			return claim
		}
	}
	return nil
}
