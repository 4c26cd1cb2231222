package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	protection "github.com/purser-csi/purser/internal/protection/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// finalizerHolders says who takes a finalizer off, and when.
var finalizerHolders = map[string]string{
	names.FinalizerPVCProtection: "kube-controller-manager, when no pod " +
		"uses the claim",
	names.FinalizerPVProtection: "kube-controller-manager, when no claim " +
		"is bound to the volume",
	names.FinalizerVolume: "the external-provisioner of the driver, when the volume is deleted on the backend",
	names.FinalizerInTree: "kube-controller-manager, when an in-tree volume is deleted",
	"snapshot.storage.kubernetes.io/pvc-as-source-protection": "the snapshot-controller, when no " +
		"snapshot is being taken of the claim",
	"provisioner.storage.kubernetes.io/cloning-protection": "the external-provisioner of the " +
		"driver, when no claim is being cloned from this one",
	"snapshot.storage.kubernetes.io/volumesnapshot-bound-protection": "the snapshot-controller, when the " +
		"content is gone",
	names.FinalizerRestoreSource: "the external-provisioner of the " +
		"driver, when no claim is being restored from the snapshot",
	"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection": "the snapshot-controller, when no claim " +
		"is being restored from the snapshot",
	"snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection": "the csi-snapshotter of the driver, " +
		"when the snapshot is deleted on the backend",
	names.FinalizerGroupSnapshot: "the snapshot-controller, when the content of the group is gone",
	names.FinalizerGroupContent: "the csi-snapshotter of the driver, when the snapshots of the group are deleted on " +
		"the backend",
	names.FinalizerSnapshotInGroup: "the snapshot-controller, when the group of the snapshot is gone",
}

// holderOf returns who takes a finalizer off; "" if it is not one of the volume plane.
func holderOf(finalizer string) string {
	if strings.HasPrefix(finalizer, "external-attacher/") {
		return "the external-attacher of the driver, when the volume is attached to no node"
	}
	if prefix, is := strings.CutSuffix(finalizer, finalizerOfPopulators); is {
		return "the populator of " + prefix + ", when the objects that it has made for the claim are gone"
	}
	return finalizerHolders[finalizer]
}

// claimDeletion explains a claim that is being deleted and does not go.
func (c *Cluster) claimDeletion(claim *corev1.PersistentVolumeClaim) []Finding {
	deleted := claim.DeletionTimestamp.Time
	base := findingAbout(claimRef(claim), &deleted)
	var findings []Finding
	for _, finalizer := range claim.Finalizers {
		f := base
		f.Evidence = []Evidence{{claimRef(claim), "metadata.finalizers", finalizer, "absent"}}
		if finalizer == names.FinalizerPVCProtection {
			findings = append(findings, c.claimInUse(claim, f))
			continue
		}
		findings = append(findings, c.claimHeld(claim, finalizer, f))
	}
	return append(findings, c.failedDeletion(claim)...)
}

// claimInUse is about the protection of claims that pods use. The controller's own rule says which
// pods count.
func (c *Cluster) claimInUse(claim *corev1.PersistentVolumeClaim, f Finding) Finding {
	var users []string
	uses := "uses"
	for _, pod := range c.index.users[keyOf(claim)] {
		if !protection.Uses(pod, claim) {
			continue
		}
		users = append(users, pod.Name)
		state := fmt.Sprintf("%s on node %s", pod.Status.Phase, pod.Spec.NodeName)
		if pod.DeletionTimestamp != nil {
			state += ", being deleted for " + age(c.Now.Sub(pod.DeletionTimestamp.Time))
		}
		f.Evidence = append(f.Evidence, Evidence{
			podRef(pod), "spec.volumes", claim.Name, "the pod is gone; it is " + state,
		})
		f.Cause = podRef(pod)
		if isFinished(pod) {
			uses = "has finished, still exists, and uses"
		}
	}
	if len(users) == 0 {
		return c.protectionSilent(f)
	}
	f = f.waits(verdict.ClaimStillUsed, User, "pod %s to go, which %s the claim", strings.Join(users, ", "), uses)
	f.Fix = []Step{{
		Text:    "Delete the pod, or scale down what creates it; finished pods (Completed, Error) count as well",
		Command: shell.Command("kubectl -n %s delete pod", claim.Namespace).With(users...),
		Risk:    "the pod is stopped; the claim goes right after it, and with policy Delete its data",
	}}
	return f
}

// protectionSilent is about an object that nothing uses and that keeps its protection.
func (c *Cluster) protectionSilent(f Finding) Finding {
	f.Reason = verdict.ProtectionSilent
	f.Cause = Ref{Kind: Lease, Namespace: "kube-system", Name: controllerManager.lease}
	f.WaitsFor = "kube-controller-manager to remove the protection finalizer: nothing uses the object any more"
	if until := f.Since.Add(2 * time.Minute); c.Now.Before(until) {
		f.Actor, f.Until = Itself, &until
		return f
	}
	f.Actor = Administrator
	f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
	if c.lacks(Pod) {
		f.Reason, f.WaitsFor = verdict.ExplainUnread, "a pod that uses it, or kube-controller-manager: pods were not "+
			"read, so it is not known which"
	}
	f.Fix = []Step{{
		Text:    "See whether kube-controller-manager runs",
		Command: "kubectl -n kube-system get lease kube-controller-manager -o yaml",
	}}
	return c.byRunner(controllerManager, f)
}

// heldBy is about a finalizer of another component.
func (c *Cluster) heldBy(finalizer string, f Finding) Finding {
	f.Reason = verdict.FinalizerHeld
	holder := holderOf(finalizer)
	if holder == "" {
		f.Actor, f.WaitsFor = Administrator, fmt.Sprintf(
			"the program that put the finalizer %q on it to take it off", finalizer,
		)
		f.Fix = []Step{{
			Text: "Find the program by the finalizer's prefix and see whether it runs. Removing the finalizer by " +
				"hand skips whatever that program has to clean up first",
			Command: shell.Command(
				"kubectl get %s %s -o jsonpath='{.metadata.managedFields[*].manager}'", f.Object.Kind.Short(),
				f.Object.Name,
			).In(f.Object.Namespace),
			Risk: "removing a finalizer by hand can leave storage behind that nothing deletes, or delete data that " +
				"is still in use",
		}}
		return f
	}
	f.Actor, f.WaitsFor = Itself, holder
	if c.Now.Sub(*f.Since) > 2*time.Minute {
		f.Actor = Administrator
		f.Fix = []Step{{
			Text: "See whether that program runs and what it says about the object",
			Command: shell.Command("kubectl describe %s %s", f.Object.Kind.Short(), f.Object.Name).In(
				f.Object.Namespace,
			),
			Risk: "do not remove the finalizer by hand: the volume or snapshot on the backend would be left behind",
		}}
	}
	return f
}
