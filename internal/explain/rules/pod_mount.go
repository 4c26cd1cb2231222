package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// podMounting explains a pod on a node none of whose containers has run, volume by volume.
func (c *Cluster) podMounting(pod *corev1.Pod) []Finding {
	findings := c.podClaims(pod)
	if node := c.index.nodes[pod.Spec.NodeName]; !c.lacks(Node) && (node == nil || !isReady(node)) {
		findings = append(findings, c.nodeSilent(pod, Finding{Object: podRef(pod), Since: &pod.CreationTimestamp.Time}))
	}
	if found := c.oneHandle(pod); found != nil {
		return append(found, findings...)
	}
	if found := c.claimNamedTwice(pod); found != nil {
		return append(findings, found...)
	}
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil || claim.Status.Phase != corev1.ClaimBound {
			continue
		}
		pv := c.index.volumes[claim.Spec.VolumeName]
		if pv == nil {
			continue
		}
		findings = append(findings, c.otherVolumeMode(pod, volume.name, claim)...)
		if pv.Spec.CSI != nil {
			findings = append(findings, c.volumeOnNode(pod, pv)...)
		}
	}
	if len(findings) == 0 {
		if f := c.ownerChange(pod); f != nil {
			findings = append(findings, *f)
		} else if f := c.mountEvents(pod); f != nil {
			findings = append(findings, *f)
		}
	}
	return findings
}

// volumeOnNode explains one volume of a pod that has a node: registration, attachment, secrets.
func (c *Cluster) volumeOnNode(pod *corev1.Pod, pv *corev1.PersistentVolume) []Finding {
	f := Finding{Object: podRef(pod), Cause: volumeRef(pv), Since: &pod.CreationTimestamp.Time}
	driver, node := pv.Spec.CSI.Driver, pod.Spec.NodeName
	if !c.lacks(CSINode) && !c.registered(node, driver) {
		f = f.about(Ref{Kind: CSINode, Name: node}).waits(verdict.DriverNotRegistered, Administrator,
			"driver %q to be registered on node %s", driver, node)
		f.Evidence = []Evidence{{Ref{Kind: CSINode, Name: node}, "spec.drivers", c.driversOn(node), driver}}
		f.Fix = c.registerFix(driver, node)
		return []Finding{c.byNodePlugin(driver, node, f)}
	}
	if !c.lacks(Attachment) {
		if found := c.attaching(pod, pv, f); found != nil {
			return []Finding{*found}
		}
	}
	if found := c.nodeSecrets(pv, f); found != nil {
		return found
	}
	return c.pluginGone(pod, driver, f)
}

// attachRequired is true without a CSIDriver object, as for the attach-detach controller.
func (c *Cluster) attachRequired(driver string) bool {
	object := c.driverOf(driver)
	if object == nil {
		return !c.lacks(CSIDriver)
	}
	return object.Spec.AttachRequired == nil || *object.Spec.AttachRequired
}

// attaching explains a volume that is not attached to the pod's node by the decision of the
// attach-detach controller decides about that node; nil if nothing is left to do.
func (c *Cluster) attaching(pod *corev1.Pod, pv *corev1.PersistentVolume, f Finding) *Finding {
	var own *storagev1.VolumeAttachment
	for _, va := range c.index.attachments[pv.Name] {
		if va.Spec.NodeName == pod.Spec.NodeName {
			own = va
		}
	}
	decided, message, unread := c.decideAttachment(pv, pod.Spec.NodeName, f.Object)
	f.Evidence = append(f.Evidence, unread...)
	if unread == nil && decided.Reason != "" {
		f = f.by(decided, message)
	}
	switch {
	case decided.Reason == verdict.MultiAttach:
		f = c.multiAttach(pod, pv, f)
	case own != nil && (!own.Status.Attached || own.DeletionTimestamp != nil): // a kubelet's own too
		f = c.attachment(own, f)
	case decided.Reason == verdict.AttachRequested && own == nil:
		f = c.notAsked(pod, pv, f)
	case decided.Reason == verdict.AttachRequested:
		f = c.notListed(pod, pv, own, f)
	default:
		return nil
	}
	return &f
}

// multiAttach is about a volume that one node may have and that another node has (4.5, 4.8).
func (c *Cluster) multiAttach(pod *corev1.Pod, pv *corev1.PersistentVolume, f Finding) Finding {
	other := c.otherAttachment(pod, pv)
	if other == nil {
		return c.listedElsewhere(pod, pv, f)
	}
	f = f.about(attachmentRef(other)).waits(verdict.MultiAttach, User,
		"volume %s to be detached from node %s: its access modes allow one node at a time", pv.Name,
		other.Spec.NodeName)
	f.Evidence = []Evidence{
		{volumeRef(pv), "spec.accessModes", fmt.Sprint(pv.Spec.AccessModes), "ReadWriteMany for two nodes"},
		{attachmentRef(other), "spec.nodeName", other.Spec.NodeName, pod.Spec.NodeName},
	}
	var users []string
	for _, user := range c.index.users[claimOf(pv)] {
		if user.Spec.NodeName == other.Spec.NodeName && !isFinished(user) {
			users = append(users, user.Name)
			f.Evidence = append(f.Evidence, Evidence{
				podRef(user), "spec.nodeName", user.Spec.NodeName, "the pod is gone, or on node " + pod.Spec.NodeName,
			})
		}
	}
	node := c.index.nodes[other.Spec.NodeName]
	switch {
	case !c.lacks(Node) && (node == nil || !isReady(node)):
		f = f.about(Ref{Kind: Node, Name: other.Spec.NodeName}).waits(verdict.MultiAttachNodeDown, Administrator,
			"volume %s to be detached from node %s, which does not report: it may still write to the volume", pv.Name,
			other.Spec.NodeName)
		f.Evidence = append(f.Evidence, c.nodeEvidence(other.Spec.NodeName))
		f.Fix = append(
			[]Step{{
				Text: "Volumes of pods that were deleted by force are detached automatically six minutes after the " +
					"node stopped reporting",
			}},
			c.nodeFix(other.Spec.NodeName)...,
		)
	case len(users) > 0:
		f.Fix = []Step{{
			Text: "Stop the pod on the other node. A Deployment with such a claim needs strategy Recreate: a " +
				"rolling update starts the new pod before the old one ends",
			Command: shell.Command("kubectl -n %s delete pod", pod.Namespace).With(users...),
			Risk:    "the pod is stopped",
		}}
	case slices.Contains(volumesInUse(node), uniqueName(pv)):
		return unmounting(pv, node, f)
	default:
		f.Actor, f.WaitsFor = Itself, fmt.Sprintf(
			"volume %s to be detached from node %s; no pod there uses it any more", pv.Name, other.Spec.NodeName,
		)
		if found := c.attachment(other, f); other.DeletionTimestamp != nil {
			return found
		}
	}
	return f
}

// unmounting is about a volume that no pod on a node uses and that its kubelet still has mounted.
func unmounting(pv *corev1.PersistentVolume, node *corev1.Node, f Finding) Finding {
	f.Actor, f.WaitsFor = Itself, fmt.Sprintf(
		"the kubelet of node %s to unmount volume %s, which no pod there uses any more", node.Name, pv.Name,
	)
	f.Evidence = append(f.Evidence, Evidence{
		Ref{Kind: Node, Name: node.Name}, "status.volumesInUse", string(uniqueName(pv)), "absent",
	})
	f.Fix = []Step{{
		Text:    "If it stays so for minutes, read the kubelet's and the driver's log on that node: unmounting fails",
		Command: shell.Command("kubectl describe node %s", node.Name),
	}}
	return f
}

func claimOf(pv *corev1.PersistentVolume) (key types.NamespacedName) {
	if ref := pv.Spec.ClaimRef; ref != nil {
		key = types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	}
	return key
}

// uniqueName is the name of a volume in the status of nodes (C8).
func uniqueName(pv *corev1.PersistentVolume) corev1.UniqueVolumeName {
	if pv.Spec.CSI == nil {
		return ""
	}
	return corev1.UniqueVolumeName(names.UniqueVolumeName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle))
}

func volumesInUse(node *corev1.Node) []corev1.UniqueVolumeName {
	if node == nil {
		return nil
	}
	return node.Status.VolumesInUse
}

// notAsked is about a volume for which there is no VolumeAttachment: the attach-detach controller
// has not acted.
func (c *Cluster) notAsked(pod *corev1.Pod, pv *corev1.PersistentVolume, f Finding) Finding {
	f = f.waits(verdict.AttachNotRequested, Itself,
		"the attach-detach controller to ask for volume %s on node %s", pv.Name, pod.Spec.NodeName)
	f.Evidence = []Evidence{{volumeRef(pv), "VolumeAttachments", "none for node " + pod.Spec.NodeName, "one"}}
	if event := c.lastEvent(podRef(pod), "FailedAttachVolume"); event != nil {
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	}
	if c.Now.Sub(pod.CreationTimestamp.Time) > 2*patience {
		f.Actor = Administrator
		f.Cause = Ref{Kind: Lease, Namespace: "kube-system", Name: controllerManager.lease}
		f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
		f.Fix = []Step{{
			Text:    "See whether kube-controller-manager runs, and its attach-detach controller with it",
			Command: "kubectl -n kube-system get lease,pods",
		}}
		if c.driverOf(pv.Spec.CSI.Driver) == nil {
			f.Fix = append(f.Fix, Step{Text: fmt.Sprintf(
				"There is no CSIDriver %q: without one a driver counts as needing attachment. If it needs none, "+
					"create the object with attachRequired: false",
				pv.Spec.CSI.Driver,
			)})
		}
		f = c.byRunner(controllerManager, f)
	}
	return f
}

// otherAttachment returns the VolumeAttachment of the volume on another node, rather one that is
// attached; nil for none.
func (c *Cluster) otherAttachment(pod *corev1.Pod, pv *corev1.PersistentVolume) (other *storagev1.VolumeAttachment) {
	for _, va := range c.index.attachments[pv.Name] {
		if va.Spec.NodeName != pod.Spec.NodeName && (other == nil || va.Status.Attached) {
			other = va
		}
	}
	return other
}

// listedElsewhere is about an exclusive volume for which there is no VolumeAttachment on another
// node, and which that node still lists as attached.
func (c *Cluster) listedElsewhere(pod *corev1.Pod, pv *corev1.PersistentVolume, f Finding) Finding {
	f = f.waits(verdict.MultiAttach, Itself, "volume %s to leave the list of attached volumes of another node", pv.Name)
	for _, node := range c.Nodes {
		if node.Name != pod.Spec.NodeName && lists(node, pv) {
			f.Cause = Ref{Kind: Node, Name: node.Name}
			f.Evidence = append(f.Evidence, Evidence{
				f.Cause, "status.volumesAttached", string(uniqueName(pv)), "absent",
			})
		}
	}
	return f
}

func lists(node *corev1.Node, pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached,
		func(v corev1.AttachedVolume) bool { return v.Name == uniqueName(pv) })
}

// notListed is the last step before a kubelet mounts: the node's status lists the volume as
// attached (4.6, C6).
func (c *Cluster) notListed(pod *corev1.Pod, pv *corev1.PersistentVolume, va *storagev1.VolumeAttachment,
	f Finding,
) Finding {
	node := c.index.nodes[pod.Spec.NodeName]
	f = f.about(Ref{Kind: Node, Name: node.Name}).waits(verdict.AttachNotListed, Itself,
		"the attach-detach controller to list volume %s in the status of node %s", pv.Name, node.Name)
	f.Evidence = []Evidence{
		{attachmentRef(va), "status.attached", "true", ""},
		{
			Ref{Kind: Node, Name: node.Name},
			"status.volumesAttached",
			fmt.Sprintf("%d volumes, not this one", len(node.Status.VolumesAttached)), string(uniqueName(pv)),
		},
	}
	if c.Now.Sub(pod.CreationTimestamp.Time) > 2*patience {
		f.Actor = Administrator
		f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
		f.Fix = []Step{{
			Text:    "See whether kube-controller-manager runs and may write nodes/status",
			Command: "kubectl -n kube-system get lease kube-controller-manager",
		}}
		f = c.byRunner(controllerManager, f)
	}
	return f
}

// nodeSecrets finds secrets that the PersistentVolume names for the node side and that do not
// exist.
func (c *Cluster) nodeSecrets(pv *corev1.PersistentVolume, f Finding) []Finding {
	if c.lacks(Secret) {
		return nil
	}
	for field, ref := range map[string]*corev1.SecretReference{
		"spec.csi.nodeStageSecretRef":   pv.Spec.CSI.NodeStageSecretRef,
		"spec.csi.nodePublishSecretRef": pv.Spec.CSI.NodePublishSecretRef,
	} {
		if ref == nil || c.index.secrets[types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}] {
			continue
		}
		f = f.about(Ref{Secret, ref.Namespace, ref.Name}).waits(verdict.NodeSecretMissing, Administrator,
			"secret %s/%s, which does not exist and without which the volume cannot be mounted",
			ref.Namespace, ref.Name)
		f.Evidence = []Evidence{{volumeRef(pv), field, ref.Namespace + "/" + ref.Name, "a secret that exists"}}
		f.Fix = []Step{{
			Text:    "Create the secret as the driver documents it; the kubelet tries again by itself",
			Command: shell.Command("kubectl -n %s get secret %s", ref.Namespace, ref.Name),
		}}
		return []Finding{f}
	}
	return nil
}

// mountEvents reads the kubelet's last events about the pod's volumes; nil if there are none.
func (c *Cluster) mountEvents(pod *corev1.Pod) *Finding {
	event := c.mountFailure(pod)
	f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time)
	if event == nil {
		if VolumesMounted(pod) || len(podVolumes(pod)) == 0 || c.Now.Sub(pod.CreationTimestamp.Time) < 2*patience {
			return nil
		}
		f = f.waits(verdict.KubeletSilent, Administrator,
			"the kubelet of node %s, which has not started a container and said nothing about the volumes",
			pod.Spec.NodeName)
		f.Evidence = []Evidence{{podRef(pod), "status.containerStatuses", containerState(pod), "running"}}
		f.Fix = []Step{{
			Text:    "The cause may be the image or the network rather than a volume",
			Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
		}}
		if waiting := containerState(pod); waiting != "none" && waiting != "ContainerCreating" &&
			waiting != "PodInitializing" {
			return nil // the containers wait for something else than volumes
		}
		return &f
	}
	if found, is := c.secretForbiddenByEvent(event, kubeletAccount, c.secretsOfPod(pod), f); is {
		return &found
	}
	if found, is := c.serverUnreachable(pod, event, f); is {
		return &found
	}
	answer := readAnswer(c.driverOfEvent(pod, event), event.Message)
	if answer.code == "" && !answer.isKnown {
		answer.actor, answer.step.Text = Administrator, mountAdvice(answer.words)
	}
	answer.step.Command = shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)
	f.Reason, f.Actor, f.Fix = verdict.MountFailed, answer.actor, []Step{answer.step}
	f.WaitsFor = "the volume to be mounted; the last attempt failed: " + said(event, answer.words)
	f.Evidence = []Evidence{eventEvidence(event, c.Now)}
	if isWaitTimeout(event.Message) && changesOwner(pod) {
		f.Evidence, f.Fix = append(f.Evidence, ownerEvidence(pod)...), append(f.Fix, Step{
			Text: "With fsGroup the kubelet changes the owner of every file at each start, which takes minutes on a " +
				"large volume: fsGroupChangePolicy: OnRootMismatch in the pod's workload spares that",
		})
	}
	return &f
}

func containerState(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil {
			return status.State.Waiting.Reason
		}
	}
	return "none"
}

// mountAdvice knows the kubelet's own messages that name no gRPC code (5.3 to 5.8).
func mountAdvice(words string) string {
	switch {
	case strings.Contains(words, "timed out waiting for the condition") ||
		strings.Contains(words, "context deadline exceeded"):
		return "The kubelet's wait timed out for one of the volumes that the message lists as unmounted; it tries " +
			"again. An earlier event about that volume has the cause"
	case strings.Contains(words, "not found in the list of registered CSI drivers"):
		return "The driver's node pod is not running on this node, or its registrar could not reach the kubelet"
	case strings.Contains(words, "secret") && strings.Contains(words, "not found"),
		strings.Contains(words, "configmap") && strings.Contains(words, "not found"):
		return "Create the secret or config map that the message names"
	case strings.Contains(words, "wrong fs type") || strings.Contains(words, "bad superblock"):
		return "The device has another filesystem than the PersistentVolume says, or a damaged one: check it on the " +
			"node before you format it"
	}
	return "Read the kubelet's message, and the log of the driver's node pod on this node"
}
