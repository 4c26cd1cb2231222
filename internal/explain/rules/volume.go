package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

func volumeRef(pv *corev1.PersistentVolume) Ref { return Ref{Kind: Volume, Name: pv.Name} }

func isProvisioned(pv *corev1.PersistentVolume) bool {
	_, ok := pv.Annotations[names.AnnProvisionedBy]
	return ok
}

// explainVolume follows a PersistentVolume through its phases.
func (c *Cluster) explainVolume(pv *corev1.PersistentVolume) Report {
	report := Report{Object: volumeRef(pv), Summary: "the volume is " + string(pv.Status.Phase)}
	policy := pv.Spec.PersistentVolumeReclaimPolicy
	switch {
	case pv.DeletionTimestamp != nil:
		report.Summary += " and being deleted"
		report.Findings = c.volumeDeletion(pv)
	case pv.Status.Phase == corev1.VolumeReleased && policy == corev1.PersistentVolumeReclaimRetain:
		report.Findings = []Finding{c.retained(pv)}
	case objects.IsReleasedOrFailed(pv):
		report.Findings = c.reclaiming(pv)
	case pv.Status.Phase == corev1.VolumeBound:
		report.Findings = c.boundVolume(pv)
		if claim := c.index.claims[claimOf(pv)]; claim != nil && len(report.Findings) == 0 {
			for _, f := range c.claimHealth(claim) {
				f.Object = volumeRef(pv)
				report.Findings = append(report.Findings, f)
			}
		}
		report.Next = fmt.Sprintf(
			"it serves claim %s; when that is deleted, the policy %s applies", claimOf(pv), policy,
		)
	case pv.Spec.ClaimRef != nil:
		report.Findings = c.reservedVolume(pv)
		report.Next = fmt.Sprintf("it waits for claim %s", claimOf(pv))
	default:
		report.Findings = c.spareVolume(pv)
		report.Next = "it serves the first claim that fits"
	}
	return c.finish(report, Event, Lease, Claim, Attachment)
}

// retained is the end that the policy Retain asks for: a person decides about the data.
func (c *Cluster) retained(pv *corev1.PersistentVolume) Finding {
	return Finding{
		Reason: verdict.VolumeKept, Object: volumeRef(pv), Cause: volumeRef(pv), Actor: Administrator,
		WaitsFor: "a decision about its data: its claim is gone, and its reclaim policy is Retain",
		Evidence: []Evidence{
			{volumeRef(pv), "spec.persistentVolumeReclaimPolicy", "Retain", ""},
			{volumeRef(pv), "spec.claimRef", describeClaimRef(pv), "a claim that exists"},
		},
		Fix: []Step{
			{
				Text: "To use the data again, remove the reference to the previous claim; then any claim that fits " +
					"can get the volume",
				Command: shell.Command(
					`kubectl patch pv %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`,
					pv.Name), Risk: "the claim that takes it first sees the data",
			},
			{
				Text: "If the data is not needed, set the policy to Delete; the driver then deletes the volume",
				Command: shell.Command(
					`kubectl patch pv %s -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`,
					pv.Name), Risk: "the data is destroyed",
			},
			{
				Text: "Deleting only the PersistentVolume object leaves the volume on the backend, where no object " +
					"of the cluster names it",
				Risk: "storage that is paid for and forgotten",
			},
		},
	}
}

// reclaiming explains a released volume that is to be deleted.
func (c *Cluster) reclaiming(pv *corev1.PersistentVolume) []Finding {
	driver := reclaim.Owner(pv)
	base := findingAbout(volumeRef(pv), nil)
	var findings []Finding
	for _, va := range c.index.attachments[pv.Name] {
		f := base
		f = f.about(attachmentRef(va)).waits(verdict.VolumeAttached, Itself,
			"the volume to be detached from node %s", va.Spec.NodeName)
		f.Evidence = []Evidence{{attachmentRef(va), "spec.nodeName", va.Spec.NodeName, "the VolumeAttachment is gone"}}
		if va.DeletionTimestamp != nil {
			f = c.attachment(va, f)
		}
		findings = append(findings, f)
	}
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		return append(findings, notRecycled(pv, base))
	}
	why, refused, unread := c.reclaimRefused(pv, driver, base)
	findings = append(findings, refused...)
	switch event := c.lastEvent(volumeRef(pv), "VolumeFailedDelete"); {
	case event != nil && len(findings) > 0:
		// Fields show what keeps the driver from being called; the event is no cause beside them.
		findings[0].Evidence = append(findings[0].Evidence, eventEvidence(event, c.Now))
	case event != nil:
		findings = append(findings, c.deletionFailed(pv, driver, event, base))
	}
	if unreadable := c.journalUnreadable(driver, "", base); unreadable != nil {
		findings = append([]Finding{*unreadable}, findings...)
	}
	state, _ := c.healthOf(provisioner(driver))
	if (state == noLease || state == expired) && len(findings) == 0 {
		f := base
		f = f.about(Ref{Kind: CSIDriver, Name: driver}).waits(verdict.ProvisionerSilent, Administrator,
			"%s to delete the volume; it shows no sign of life", provisioner(driver).name)
		f.Evidence = c.leaseEvidence(provisioner(driver))
		f.Fix = []Step{{
			Text: "See whether the driver's controller pod runs", Command: "kubectl get pods -A | grep -i csi",
		}}
		findings = append(findings, c.byRunner(provisioner(driver), f))
	}
	if len(findings) == 0 {
		base.Reason, base.Actor, base.WaitsFor = verdict.VolumeReclaim, Itself, fmt.Sprintf(
			"driver %q to delete the volume", driver,
		)
		if why.Reason != verdict.VolumeReclaim {
			base.Reason, base.WaitsFor = why.Reason, "the provisioner, which has nothing to delete yet: "+why.Message
		}
		findings = append(findings, base)
	}
	findings[0].Evidence = append(findings[0].Evidence, unread...)
	return inWordsOf(why, findings)
}

// deletionFailed is about a volume whose last deletion failed, as an event says.
func (c *Cluster) deletionFailed(pv *corev1.PersistentVolume, driver string, event *corev1.Event, f Finding) Finding {
	if found, is := c.secretForbiddenByEvent(event, provisionerAccount, secretsOfVolume(pv), f); is {
		return found
	}
	if found, is := c.told(event, f); is {
		return found
	}
	answer := readAnswer(driver, event.Message)
	f = f.waits(verdict.DeleteFailed, answer.actor, "the driver to delete the volume; it failed: %s",
		said(event, answer.words))
	f.Evidence = []Evidence{eventEvidence(event, c.Now)}
	f.Fix = []Step{answer.step, {
		Text:    "It is repeated by itself. Do not remove the finalizer: the volume would stay on the backend",
		Command: shell.Command("kubectl describe pv %s", pv.Name),
		Risk:    "removing the finalizer leaks the volume",
	}}
	return f
}

// notRecycled is about a released volume with the reclaim policy Recycle.
func notRecycled(pv *corev1.PersistentVolume, f Finding) Finding {
	f = f.waits(verdict.VolumeNotRecycled, Administrator,
		"its data to be removed by hand: its reclaim policy is Recycle, which nothing carries out")
	f.Evidence = []Evidence{{volumeRef(pv), "spec.persistentVolumeReclaimPolicy", "Recycle", "Delete or Retain"}}
	f.Fix = []Step{{
		Text: "Remove the data on the storage, then remove the reference to the previous claim; any claim that fits " +
			"can get the volume then",
		Command: shell.Command(
			`kubectl patch pv %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`, pv.Name,
		),
		Risk: "data that is left is seen by the next claim",
	}}
	return f
}

// volumeDeletion explains a PersistentVolume that is being deleted and does not go.
func (c *Cluster) volumeDeletion(pv *corev1.PersistentVolume) []Finding {
	deleted := pv.DeletionTimestamp.Time
	base := findingAbout(volumeRef(pv), &deleted)
	if pv.Status.Phase == corev1.VolumeBound && slices.Contains(pv.Finalizers, names.FinalizerPVProtection) {
		base.Reason, base.Actor, base.Cause = verdict.VolumeStillUsed, User,
			Ref{Claim, claimOf(pv).Namespace, claimOf(pv).Name}
		base.WaitsFor = fmt.Sprintf("claim %s, which has the volume, to be deleted", claimOf(pv))
		base.Evidence = []Evidence{{volumeRef(pv), "spec.claimRef", describeClaimRef(pv), "the claim is gone"}}
		if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			base.Fix = []Step{retain(pv)}
		}
		base.Fix = append(base.Fix, Step{
			Text:    "Delete the claim as well if it is not needed",
			Command: shell.Command("kubectl -n %s delete pvc %s", claimOf(pv).Namespace, claimOf(pv).Name),
			Risk:    "with policy " + string(pv.Spec.PersistentVolumeReclaimPolicy) + " " + policyRisk(pv),
		})
		return []Finding{base}
	}
	var findings []Finding
	for _, finalizer := range pv.Finalizers {
		f := base
		f.Evidence = []Evidence{{volumeRef(pv), "metadata.finalizers", finalizer, "absent"}}
		switch finalizer {
		case names.FinalizerPVProtection:
			findings = append(findings, c.protectionSilent(f))
		case names.FinalizerVolume:
			for _, found := range c.reclaiming(pv) {
				found.Since = &deleted
				findings = append(findings, found)
			}
		default:
			findings = append(findings, c.attacherFinalizer(pv, finalizer, f))
		}
	}
	return findings
}

func policyRisk(pv *corev1.PersistentVolume) string {
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return "its data is destroyed"
	}
	return "its data stays on the backend, where nothing points to it"
}

// attacherFinalizer tells a volume that is attached from one whose attacher is gone.
func (c *Cluster) attacherFinalizer(pv *corev1.PersistentVolume, finalizer string, f Finding) Finding {
	if !strings.HasPrefix(finalizer, "external-attacher/") || pv.Spec.CSI == nil {
		return c.heldBy(finalizer, f)
	}
	for _, va := range c.index.attachments[pv.Name] {
		f.Evidence = append(f.Evidence, Evidence{
			attachmentRef(va), "spec.nodeName", va.Spec.NodeName, "the VolumeAttachment is gone",
		})
		return c.attachment(va, f)
	}
	if state, _ := c.healthOf(attacher(pv.Spec.CSI.Driver)); state == noLease || state == expired {
		f = f.about(Ref{Kind: CSIDriver, Name: pv.Spec.CSI.Driver}).waits(verdict.AttacherSilent, Administrator,
			"%s to take its finalizer off; it shows no sign of life", attacher(pv.Spec.CSI.Driver).name)
		f.Evidence = append(f.Evidence, c.leaseEvidence(attacher(pv.Spec.CSI.Driver))...)
		f.Fix = []Step{{
			Text:    "Does the driver's controller pod have a csi-attacher container that runs?",
			Command: "kubectl get pods -A | grep -i csi",
		}}
		return c.byRunner(attacher(pv.Spec.CSI.Driver), f)
	}
	return c.heldBy(finalizer, f)
}

// boundVolume checks that the claim of a bound volume exists.
func (c *Cluster) boundVolume(pv *corev1.PersistentVolume) []Finding {
	if c.lacks(Claim) || pv.Spec.ClaimRef == nil {
		return nil
	}
	claim := c.index.claims[claimOf(pv)]
	if claim != nil && claim.UID == pv.Spec.ClaimRef.UID {
		return nil
	}
	f := Finding{
		Reason: verdict.BinderSilent, Object: volumeRef(pv), Cause: volumeRef(pv), Actor: Itself,
		WaitsFor: "the PV controller to release the volume: its claim is gone",
		Evidence: []Evidence{{volumeRef(pv), "spec.claimRef", describeClaimRef(pv), "a claim that exists"}},
	}
	f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
	if state, _ := c.healthOf(controllerManager); state == expired {
		f.Actor = Administrator
		f.Fix = []Step{{
			Text:    "kube-controller-manager shows no sign of life",
			Command: "kubectl -n kube-system get lease kube-controller-manager -o yaml",
		}}
		f = c.byRunner(controllerManager, f)
	}
	return []Finding{f}
}

// reservedVolume compares a volume with the claim that it is kept for.
func (c *Cluster) reservedVolume(pv *corev1.PersistentVolume) []Finding {
	claim := c.index.claims[claimOf(pv)]
	if claim == nil || c.lacks(Claim) {
		return nil
	}
	if claim.Spec.VolumeName != "" && claim.Spec.VolumeName != pv.Name {
		return []Finding{{
			Reason: verdict.VolumeTaken, Object: volumeRef(pv), Cause: claimRef(claim), Actor: Administrator,
			WaitsFor: fmt.Sprintf("claim %s, which has another volume", claimOf(pv)),
			Evidence: []Evidence{{claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, pv.Name}},
			Fix:      []Step{{Text: "Change spec.claimRef of the volume to a claim that has no volume, or remove it"}},
		}}
	}
	differences := compare(pv, claim)
	differences = slices.DeleteFunc(
		differences, func(e Evidence) bool {
			return e.Field == "spec.storageClassName" ||
				e.Field == "metadata.labels"
		},
	)
	if len(differences) == 0 || binding.TakesNamed(claim, pv) {
		return nil
	}
	return []Finding{{
		Reason: verdict.VolumeUnfit, Object: volumeRef(pv), Cause: claimRef(claim), Actor: Administrator,
		Evidence: differences,
		WaitsFor: fmt.Sprintf("claim %s, which it is kept for and does not fit", claimOf(pv)),
		Fix: []Step{{
			Text: "Make the fields above agree: correct the PersistentVolume, or create the claim again",
		}},
	}}
}

// olderThan reports whether t lies further back than d.
func (c *Cluster) olderThan(t time.Time, d time.Duration) bool { return c.Now.Sub(t) > d }
