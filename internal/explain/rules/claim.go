package explain

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// patience is how long a controller may take for its next step before its silence is a finding.
const patience = 30 * time.Second

func claimRef(claim *corev1.PersistentVolumeClaim) Ref {
	return Ref{Claim, claim.Namespace, claim.Name}
}

// explainClaim follows a claim through deletion, binding, expansion and modification.
func (c *Cluster) explainClaim(claim *corev1.PersistentVolumeClaim) Report {
	report := Report{Object: claimRef(claim)}
	switch {
	case claim.DeletionTimestamp != nil:
		report.Findings = c.claimDeletion(claim)
		report.Summary = "the claim is being deleted"
	case claim.Status.Phase == corev1.ClaimBound:
		report.Findings = slices.Concat(
			c.boundClaim(claim), c.claimExpansion(claim), c.claimModification(claim), c.claimHealth(claim),
		)
		report.Summary = fmt.Sprintf("the claim is bound to volume %s, %s", claim.Spec.VolumeName, capacityOf(claim))
		report.Next = c.afterBound(claim)
	default:
		report.Findings = c.pendingClaim(claim)
		report.Summary = fmt.Sprintf(
			"the claim is %s for %s", claim.Status.Phase, age(c.Now.Sub(claim.CreationTimestamp.Time)),
		)
	}
	return c.finish(report, Event, Lease, Pod, Class, Volume)
}

func capacityOf(claim *corev1.PersistentVolumeClaim) string {
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	return capacity.String()
}

func (c *Cluster) afterBound(claim *corev1.PersistentVolumeClaim) string {
	if pods := c.index.users[keyOf(claim)]; len(pods) > 0 {
		use := "a pod uses it"
		if len(pods) > 1 {
			use = fmt.Sprintf("%d pods use it", len(pods))
		}
		return fmt.Sprintf(
			"%s; purser explain pod/%s -n %s follows the volume to its node", use, pods[0].Name, pods[0].Namespace,
		)
	}
	return "a pod that names it gets its volume"
}

func keyOf(o object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// bindingSnapshot returns the binder's inputs for the claim. The objects count as the results of
// live reads.
func (c *Cluster) bindingSnapshot(claim *corev1.PersistentVolumeClaim) binding.Snapshot {
	s, _, err := c.Gather.Binding(binding.Key{Claim: keyOf(claim)})
	if err != nil || s.Claim == nil { // the lists have the claim twice, or not at all
		s = binding.Snapshot{Key: binding.Key{Claim: keyOf(claim)}, Claim: claim, ClaimAsked: true, VolumesAsked: true}
	}
	s.InProcess = s.Class != nil && c.isHandedOver(claim, binding.Driver(s.Class.Provisioner))
	return s
}

// isHandedOver reports whether the claim shows that the binder and the provisioner are one process
// (purser plane), which does not write the annotation that asks a provisioner: both leases have one
// holder, or a provisioner works on a claim without the annotation.
func (c *Cluster) isHandedOver(claim *corev1.PersistentVolumeClaim, driver string) bool {
	if claim.Annotations[names.AnnStorageProvisioner] != "" {
		return false
	}
	if c.lastEventNotBy(binderName, claimRef(claim), "Provisioning", "ProvisioningFailed") != nil {
		return true
	}
	state, binder := c.healthOf(controllerManager)
	other, leader := c.healthOf(provisioner(driver))
	return state == renewed && other == renewed && *binder.Spec.HolderIdentity == *leader.Spec.HolderIdentity
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// pendingClaim explains a claim that is not bound by the binder's own decision.
func (c *Cluster) pendingClaim(claim *corev1.PersistentVolumeClaim) []Finding {
	s := c.bindingSnapshot(claim)
	v := binding.Decide(s)
	return c.withNear(claim, inWordsOf(v.Because(), c.pendingBy(claim, s, v)))
}

func (c *Cluster) pendingBy(claim *corev1.PersistentVolumeClaim, s binding.Snapshot, v binding.Verdict) []Finding {
	why := v.Because()
	if todo, acts := v.(verdict.Do[binding.Action]); acts && why.Reason != verdict.HandedOver {
		return c.binderSilent(claim, todo)
	}
	f := Finding{
		Reason: why.Reason,
		Object: claimRef(claim),
		Cause:  claimRef(claim),
		Since:  &claim.CreationTimestamp.Time,
	}
	switch why.Reason {
	case verdict.ClassMissing:
		return c.classMissing(claim, f)
	case verdict.NoVolumeAndNoClass:
		return c.noVolume(claim, f)
	case verdict.WaitForFirstConsumer:
		return []Finding{waitForConsumer(claim, s, f)}
	case verdict.SchedulerBypassed:
		return []Finding{c.schedulerBypassed(claim, f)}
	case verdict.WaitForPodScheduled:
		return c.podUnscheduled(claim, f)
	case verdict.ExternalProvisioning, verdict.HandedOver:
		return c.provisioning(claim, s, f)
	case verdict.ProvisionerUnknown:
		return []Finding{provisionerUnknown(claim, s, f)}
	case verdict.VolumeAwaited, verdict.VolumeTaken, verdict.VolumeUnfit:
		return c.preBound(claim, why, f)
	case verdict.ClaimLost, verdict.ClaimStaysLost, verdict.ClaimMisbound:
		return []Finding{c.lostClaim(claim, f.by(why, ""))}
	default:
		f.WaitsFor, f.Actor = why.Message, Itself
		return []Finding{f}
	}
}

// binderSilent is about a claim for which the binder has something to do that it has not done.
func (c *Cluster) binderSilent(claim *corev1.PersistentVolumeClaim, todo verdict.Do[binding.Action]) []Finding {
	since := claim.CreationTimestamp.Time
	if todo.Because().Reason == verdict.ClaimLosing || claim.Status.Phase == corev1.ClaimLost {
		return []Finding{c.lostClaim(claim, Finding{
			Reason: verdict.ClaimLost, Object: claimRef(claim),
			Cause: claimRef(claim), Since: &since,
		}.by(todo.Because(), ""))}
	}
	f := Finding{
		Reason: verdict.BinderSilent, Object: claimRef(claim), Since: &since,
		WaitsFor: "the PV controller to act: " + todo.Because().Message,
	}
	if c.Now.Sub(since) < patience {
		until := since.Add(patience)
		f.Reason, f.Actor, f.Until, f.Cause = todo.Because().Reason, Itself, &until, claimRef(claim)
		return []Finding{f}
	}
	event := c.lastEvent(claimRef(claim), "ProvisioningFailed")
	if event != nil && reasonOf(event) == verdict.ProvisionerNotAsked {
		found, _ := c.told(event, f.about(claimRef(claim)))
		return []Finding{found}
	}
	f.Actor, f.Cause = Administrator, Ref{Kind: Lease, Namespace: "kube-system", Name: controllerManager.lease}
	f.Evidence = append([]Evidence{{
		claimRef(claim), "status.phase", string(claim.Status.Phase), "what follows from: " + todo.Because().Message,
	}},
		c.leaseEvidence(controllerManager)...)
	f.Fix = []Step{
		{
			Text:    "See whether the PV controller runs (kube-controller-manager, or purser controllers)",
			Command: "kubectl -n kube-system get lease,pods",
		},
		{
			Text: "Read its log for this claim",
			Command: shell.Command(
				"kubectl -n kube-system logs -l component=kube-controller-manager | grep %s", claim.Name,
			),
		},
	}
	return []Finding{c.byRunner(controllerManager, f)}
}

func waitForConsumer(claim *corev1.PersistentVolumeClaim, s binding.Snapshot, f Finding) Finding {
	f.WaitsFor, f.Actor = "a pod that uses the claim: its class binds a volume only when a pod needs it", User
	f.Evidence = []Evidence{
		{Ref{Kind: Class, Name: s.Class.Name}, "volumeBindingMode", "WaitForFirstConsumer", ""},
		{claimRef(claim), "pods that name the claim", "none", "at least one"},
	}
	f.Fix = []Step{{
		Text:    "Create a pod with this claim in spec.volumes; this is the ordinary state before that",
		Command: shell.Command("kubectl -n %s get pods -o wide", claim.Namespace),
	}}
	return f
}

func (c *Cluster) schedulerBypassed(claim *corev1.PersistentVolumeClaim, f Finding) Finding {
	f.Actor = User
	f.WaitsFor = "a scheduler that selects the node for the claim; its pod got its node without one"
	for _, pod := range c.index.users[keyOf(claim)] {
		if pod.Spec.NodeName != "" {
			f.Evidence = append(f.Evidence,
				Evidence{
					podRef(pod), "spec.nodeName", pod.Spec.NodeName,
					"set by the scheduler after it has picked a node for the claim",
				},
				Evidence{
					claimRef(claim), "metadata.annotations[" + names.AnnSelectedNode + "]", "absent", pod.Spec.NodeName,
				})
			f.Fix = []Step{{
				Text: "Create the pod again without spec.nodeName (a nodeSelector on kubernetes.io/hostname does " +
					"the same with the scheduler)",
				Command: shell.Command("kubectl -n %s delete pod %s", pod.Namespace, pod.Name),
				Risk:    "the pod is stopped; its controller, if it has one, creates it again",
			}}
			break
		}
	}
	return f
}

func (c *Cluster) lostClaim(claim *corev1.PersistentVolumeClaim, f Finding) Finding {
	f.Reason = verdict.ClaimLost
	f.Actor, f.WaitsFor = Administrator, "its volume, which is not there or belongs to another claim; the claim does "+
		"not get another one"
	pv := c.index.volumes[claim.Spec.VolumeName]
	switch {
	case claim.Spec.VolumeName == "":
		f.Evidence = []Evidence{{claimRef(claim), "spec.volumeName", `""`, "the volume that it was bound to"}}
	case pv == nil:
		f.Evidence = []Evidence{{
			claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, "a PersistentVolume that exists",
		}}
		f.Cause = Ref{Kind: Volume, Name: claim.Spec.VolumeName}
	default:
		f.Reason = verdict.ClaimMisbound
		f.Cause = volumeRef(pv)
		f.Evidence = []Evidence{{
			volumeRef(pv), "spec.claimRef", describeClaimRef(pv),
			fmt.Sprintf("%s/%s, uid %s", claim.Namespace, claim.Name, claim.UID),
		}}
	}
	if _, marked := claim.Annotations[names.AnnBindCompleted]; marked && claim.Spec.VolumeName == "" {
		f.Evidence = append(f.Evidence, Evidence{
			claimRef(claim), "metadata.annotations[" + names.AnnBindCompleted + "]", "present",
			"absent, if the claim was never bound",
		})
		f.Reason = verdict.ClaimMarkedBound
		f.Fix = append(f.Fix, Step{
			Text: "If the claim is new or a copy, remove the annotation, which only the controller may write; the " +
				"claim then gets a volume",
			Command: shell.Command(
				"kubectl -n %s annotate pvc %s %s-", claim.Namespace, claim.Name, names.AnnBindCompleted,
			),
		})
	}
	f.Fix = append(f.Fix, []Step{
		{
			Text: "If the storage still exists on the backend, write a PersistentVolume for it by hand with the " +
				"handle, and a claim with spec.volumeName that names it",
		},
		{
			Text:    "If the data is not needed, delete the claim and create it again",
			Command: shell.Command("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name),
			Risk:    "the claim's data is lost to it; no object refers to it any more",
		},
	}...)
	return f
}

func describeClaimRef(pv *corev1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return "absent"
	}
	if ref.UID == "" {
		return ref.Namespace + "/" + ref.Name
	}
	return fmt.Sprintf("%s/%s, uid %s", ref.Namespace, ref.Name, ref.UID)
}
