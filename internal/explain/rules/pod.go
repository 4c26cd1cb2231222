package explain

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

func podRef(pod *corev1.Pod) Ref { return Ref{Pod, pod.Namespace, pod.Name} }

// podVolume is one volume of a pod that a claim serves.
type podVolume struct {
	name  string // in the pod
	claim types.NamespacedName
	// template is that of the claim of an ephemeral volume; nil for another volume.
	template *corev1.PersistentVolumeClaimTemplate
}

func podVolumes(pod *corev1.Pod) []podVolume {
	var all []podVolume
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			all = append(all, podVolume{v.Name, types.NamespacedName{
				Namespace: pod.Namespace,
				Name:      v.PersistentVolumeClaim.ClaimName,
			}, nil})
		case v.Ephemeral != nil:
			all = append(all, podVolume{v.Name, types.NamespacedName{
				Namespace: pod.Namespace,
				Name:      ephemeral.ClaimName(pod, v.Name),
			}, cmp.Or(v.Ephemeral.VolumeClaimTemplate, &corev1.PersistentVolumeClaimTemplate{})})
		}
	}
	return all
}

// explainPod follows a pod through scheduling, attachment and mounting of its volumes.
func (c *Cluster) explainPod(pod *corev1.Pod) Report {
	report := Report{Object: podRef(pod), Summary: fmt.Sprintf("the pod is %s", podState(pod))}
	switch {
	case isFinished(pod) && pod.DeletionTimestamp == nil:
		report.Next = "its containers have ended; its claims stay in use until it is deleted"
	case pod.DeletionTimestamp != nil:
		report.Findings = c.podDeletion(pod)
	case pod.Spec.NodeName == "":
		report.Findings = c.podScheduling(pod)
	case !isStarted(pod):
		report.Findings = c.podMounting(pod)
	}
	if len(report.Findings) == 0 && !isFinished(pod) && pod.DeletionTimestamp == nil {
		report.Findings = c.podContainers(pod)
	}
	if len(report.Findings) == 0 {
		report.Findings = c.podVolumesHealth(pod)
	}
	if len(report.Findings) == 0 && report.Next == "" && publishedOnly(pod) {
		report.Next = "its volumes are published by purser node, which runs no containers, so the pod stays Pending; " +
			"a kubelet would run them, such as that of `purser up --kubelet`"
	}
	if len(report.Findings) == 0 && report.Next == "" {
		report.Next = "its volumes are in place as far as the objects tell"
	}
	return c.finish(report, Event, Claim, Volume, CSINode, CSIDriver, Attachment, Node)
}

// publishedOnly reports whether the pod is on a node without a kubelet and its volumes are there.
func publishedOnly(pod *corev1.Pod) bool {
	return !isStarted(pod) && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == names.ConditionVolumesPublished && c.Status == corev1.ConditionTrue
	})
}

func podState(pod *corev1.Pod) string {
	state := string(pod.Status.Phase)
	if pod.DeletionTimestamp != nil {
		state = "being deleted"
	}
	if pod.Spec.NodeName == "" {
		return state + ", without a node"
	}
	state += " on node " + pod.Spec.NodeName
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Reason == string(verdict.PodContainersNotRun)
	}) {
		state += ", whose containers do not run because the node has no kubelet"
	}
	return state
}

// isStarted reports whether a container has run, for which all volumes had to be mounted.
func isStarted(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodRunning {
		return true
	}
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if status.State.Running != nil || status.State.Terminated != nil ||
			status.LastTerminationState.Terminated != nil {
			return true
		}
	}
	return false
}

// podClaims explains the claims of a pod that are missing or not bound. The pod waits for them
// first.
func (c *Cluster) podClaims(pod *corev1.Pod) []Finding {
	if c.lacks(Claim) {
		return nil
	}
	var findings []Finding
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil {
			findings = append(findings, c.claimMissing(pod, volume))
			continue
		}
		if volume.template != nil && !metav1.IsControlledBy(claim, pod) {
			findings = append(findings, ephemeralTaken(pod, volume, claim))
			continue
		}
		if claim.DeletionTimestamp != nil {
			findings = append(findings, claimDeleting(pod, claim))
			continue
		}
		if claim.Status.Phase == corev1.ClaimBound {
			continue
		}
		if binding.Decide(c.bindingSnapshot(claim)).Because().Reason == verdict.WaitForPodScheduled {
			continue // the claim waits for this very pod
		}
		for _, f := range c.pendingClaim(claim) {
			f.Chain = []Link{
				{podRef(pod), "claim " + claim.Name + ", which is " + string(claim.Status.Phase)},
				{claimRef(claim), f.WaitsFor},
			}
			f.Object = podRef(pod)
			f.Evidence = append([]Evidence{{
				podRef(pod), "spec.volumes[" + volume.name + "]", "claim " + claim.Name,
				"bound; it is " + string(claim.Status.Phase),
			}}, f.Evidence...)
			findings = append(findings, f)
		}
	}
	return findings
}

func (c *Cluster) claimMissing(pod *corev1.Pod, volume podVolume) Finding {
	if volume.template != nil {
		return c.ephemeralMissing(pod, volume)
	}
	f := Finding{
		Reason: verdict.PodClaimMissing, Object: podRef(pod),
		Cause: Ref{Claim, volume.claim.Namespace, volume.claim.Name}, Actor: User, Since: &pod.CreationTimestamp.Time,
		WaitsFor: fmt.Sprintf(
			"claim %q, which does not exist in namespace %q", volume.claim.Name, volume.claim.Namespace,
		),
		Evidence: []Evidence{{
			podRef(pod), "spec.volumes[" + volume.name + "].persistentVolumeClaim.claimName", volume.claim.Name,
			"a claim that exists",
		}},
		Fix: []Step{{
			Text:    "Create the claim, or correct the name in the pod",
			Command: shell.Command("kubectl -n %s get pvc", pod.Namespace),
		}},
	}
	for key := range c.index.claims {
		if key.Name == volume.claim.Name && key.Namespace != volume.claim.Namespace {
			f.Evidence = append(f.Evidence, Evidence{
				Ref{Claim, key.Namespace, key.Name},
				"metadata.namespace", key.Namespace,
				pod.Namespace + ": a pod uses claims of its own namespace only",
			})
			break
		}
	}
	return f
}

func claimDeleting(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) Finding {
	return Finding{
		Reason: verdict.PodClaimDeleting, Object: podRef(pod), Cause: claimRef(claim), Actor: User,
		Since: &pod.CreationTimestamp.Time,
		WaitsFor: fmt.Sprintf(
			"a claim that is not being deleted: %s was deleted, and a new pod does not get it any more", claim.Name,
		),
		Evidence: []Evidence{{
			claimRef(claim), "metadata.deletionTimestamp", claim.DeletionTimestamp.UTC().String(), "absent",
		}},
		Fix: []Step{{
			Text: "A deletion cannot be undone. Stop all pods that use the claim, wait until it is removed, and " +
				"create it again",
			Risk: "with reclaim policy Delete the data goes with the claim: set the policy of its volume to Retain " +
				"first if it is needed",
		}},
	}
}

// podDeletion explains a pod that is being deleted and does not go.
func (c *Cluster) podDeletion(pod *corev1.Pod) []Finding {
	grace := int64(0)
	if pod.DeletionGracePeriodSeconds != nil {
		grace = *pod.DeletionGracePeriodSeconds
	}
	end := pod.DeletionTimestamp.Add(patience) // the API server adds the grace period to the time of the call
	since := pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	f := Finding{Object: podRef(pod), Cause: podRef(pod), Since: &since, Actor: Itself}
	var findings []Finding
	for _, finalizer := range pod.Finalizers {
		held := f
		held.Evidence = []Evidence{{podRef(pod), "metadata.finalizers", finalizer, "absent"}}
		findings = append(findings, c.heldBy(finalizer, held))
	}
	if c.Now.Before(end) {
		f.Reason, f.WaitsFor, f.Until = verdict.PodStopping, fmt.Sprintf(
			"its containers to end (grace period %ds)", grace,
		), &end
		return append(findings, f)
	}
	if node := c.index.nodes[pod.Spec.NodeName]; pod.Spec.NodeName != "" && !c.lacks(Node) &&
		(node == nil || !isReady(node)) {
		return append(findings, c.nodeSilent(pod, f))
	}
	if event := c.lastEvent(podRef(pod), "FailedUnMount", "FailedUnmount", "FailedKillPod"); event != nil {
		answer := readAnswer(c.driverOfEvent(pod, event), event.Message)
		f.Reason, f.Actor = verdict.UnmountFailed, Administrator
		f.WaitsFor = "its volumes to be unmounted, which fails: " + said(event, answer.words)
		f.Evidence = []Evidence{eventEvidence(event, c.Now)}
		f.Fix = []Step{answer.step, {
			Text:    "Find what holds the mount on the node",
			Command: shell.Command("kubectl get pods -A -o wide --field-selector spec.nodeName=%s", pod.Spec.NodeName),
		}}
		return append(findings, f)
	}
	if len(findings) > 0 {
		return findings
	}
	f.Reason, f.Actor, f.WaitsFor = verdict.PodStopping, Administrator, fmt.Sprintf(
		"the kubelet of node %s to report that its containers have ended", pod.Spec.NodeName,
	)
	f.Evidence = []Evidence{{
		podRef(pod), "metadata.deletionTimestamp", pod.DeletionTimestamp.UTC().String(), "the pod is gone",
	}}
	f.Fix = []Step{{
		Text:    "Read the kubelet's log on the node for this pod",
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	return []Finding{f}
}

// nodeSilent is about a pod on a node whose kubelet does not report any more.
func (c *Cluster) nodeSilent(pod *corev1.Pod, f Finding) Finding {
	f = f.about(Ref{Kind: Node, Name: pod.Spec.NodeName}).waits(verdict.NodeNotReady, Administrator,
		"node %s, whose kubelet does not report: only it can say that the containers have ended and the volumes are "+
			"unmounted",
		pod.Spec.NodeName)
	f.Evidence = append(f.Evidence, c.nodeEvidence(pod.Spec.NodeName))
	f.Fix = c.nodeFix(pod.Spec.NodeName)
	return f
}

func (c *Cluster) nodeEvidence(name string) Evidence {
	ref := Ref{Kind: Node, Name: name}
	node := c.index.nodes[name]
	if node == nil {
		return Evidence{ref, "metadata.name", "there is no such node", name}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return Evidence{
				ref, "status.conditions[Ready]",
				fmt.Sprintf(
					"%s since %s%s", condition.Status, age(c.Now.Sub(condition.LastTransitionTime.Time)),
					inBrackets(condition.Reason),
				),
				"True",
			}
		}
	}
	return Evidence{ref, "status.conditions[Ready]", "absent", "True"}
}

func (c *Cluster) nodeFix(name string) []Step {
	back := Step{
		Text:    "Bring the node back; everything goes on by itself then",
		Command: shell.Command("kubectl describe node %s", name),
	}
	if isOutOfService(c.index.nodes[name]) {
		return []Step{back} // the API server refuses the taint a second time
	}
	return []Step{back, {
		Text: "If the machine is certainly off, add the taint; its pods are deleted and its volumes detached at once",
		Command: shell.Command(
			"kubectl taint node %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", name,
		),
		Risk: "if the machine still runs, two nodes write to one volume and its data is destroyed: power it off " +
			"first, and take the taint off when it is back",
	}}
}

// isOutOfService reports whether an administrator has declared the machine of a node to be off.
func isOutOfService(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService && t.Effect == corev1.TaintEffectNoExecute
	})
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// inBrackets returns a text behind another one; nothing for an empty one.
func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}
