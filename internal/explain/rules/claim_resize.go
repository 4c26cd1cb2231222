package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	resizing "github.com/purser-csi/purser/internal/resize/rules"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// boundClaim checks that the claim's volume exists and refers to the claim.
func (c *Cluster) boundClaim(claim *corev1.PersistentVolumeClaim) []Finding {
	if c.lacks(Volume) {
		return nil
	}
	pv := c.index.volumes[claim.Spec.VolumeName]
	if pv != nil && pv.Spec.ClaimRef != nil && (pv.Spec.ClaimRef.UID == claim.UID || pv.Spec.ClaimRef.UID == "") {
		return nil
	}
	return []Finding{c.lostClaim(claim, Finding{
		Reason: verdict.ClaimLost, Object: claimRef(claim),
		Cause: claimRef(claim),
	})}
}

// claimExpansion explains a claim that asks for more than it has.
func (c *Cluster) claimExpansion(claim *corev1.PersistentVolumeClaim) []Finding {
	wants, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	pv := c.index.volumes[claim.Spec.VolumeName]
	if size.Compare(wants, has) <= 0 || !resizing.Grows(claim) || pv == nil && !c.lacks(Volume) {
		return nil
	}
	f := findingAbout(claimRef(claim), nil)
	f.Evidence = []Evidence{
		{claimRef(claim), "spec.resources.requests.storage", wants.String(), ""},
		{claimRef(claim), "status.capacity.storage", has.String(), wants.String()},
	}
	status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if status != "" {
		f.Evidence = append(f.Evidence, Evidence{
			claimRef(claim), "status.allocatedResourceStatuses.storage", string(status), "",
		})
	}
	if allocated, ok := claim.Status.AllocatedResources[corev1.ResourceStorage]; ok {
		f.Evidence = append(f.Evidence, Evidence{
			claimRef(claim), "status.allocatedResources.storage", allocated.String(), "",
		})
	}
	if pv == nil {
		return []Finding{c.expansionByClaim(claim, has, f)}
	}
	decided := c.decideResize(claim, pv)
	f = f.by(decided.Because(), "")
	next := nextSize(decided)
	switch {
	case isRefused(claim, next):
		return []Finding{c.infeasible(claim, has, f)}
	case decided.Because().Reason == verdict.ResizeSizeInvalid:
		why := decided.Because()
		f = f.waits(why.Reason, User, "a size that a driver can be asked for: %s", why.Message)
		f.Fix = []Step{{
			Text: why.Fix, Command: shell.Command("kubectl edit pvc %s", claim.Name).In(claim.Namespace),
		}}
		return []Finding{f}
	case decided.Because().Reason == verdict.ResizeOnNode,
		status == "" && conditionOf(claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil:
		return []Finding{c.nodeExpansion(claim, f)}
	}
	awaited := c.controllerExpansion(claim, pv, f)
	if next != nil && size.Compare(*next, wants) != 0 && awaited.Reason == verdict.ExpansionAwaited {
		awaited = c.otherSizeFirst(claim, pv, *next, f)
	}
	return []Finding{awaited}
}

// expansionByClaim explains an expansion to a reader who may not read the volume: by the status of
// the claim and the events about it.
func (c *Cluster) expansionByClaim(claim *corev1.PersistentVolumeClaim, has resource.Quantity, f Finding) Finding {
	driver := claim.Annotations[names.AnnStorageProvisioner]
	event := c.lastEventNotBy(kubeletName, claimRef(claim), "VolumeResizeFailed")
	switch {
	case isRefused(claim, nil):
		return c.infeasible(claim, has, f)
	case conditionOf(claim, corev1.PersistentVolumeClaimFileSystemResizePending) != nil:
		return c.nodeExpansion(claim, f)
	case event != nil:
		return c.expansionFailed(claim, driver, event, f)
	}
	f = f.waits(verdict.ExpansionAwaited, Administrator, "the driver's external-resizer to expand the volume; whether "+
		"it runs is not known, as nothing outside of the namespace was read")
	f.Fix = []Step{{
		Text:    "Ask an administrator to explain the claim, who may read volumes and leases",
		Command: shell.Command("purser explain pvc/%s", claim.Name).In(claim.Namespace),
	}}
	return f
}

func conditionOf(claim *corev1.PersistentVolumeClaim,
	kind corev1.PersistentVolumeClaimConditionType,
) *corev1.PersistentVolumeClaimCondition {
	i := slices.IndexFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
	if i < 0 {
		return nil
	}
	return &claim.Status.Conditions[i]
}

// infeasible is about a size that the driver refuses for good (KEP-1790).
func (c *Cluster) infeasible(claim *corev1.PersistentVolumeClaim, has resource.Quantity, f Finding) Finding {
	f = f.waits(verdict.ResizeRefused, User, "a size that the driver accepts; it refuses the one that was asked for")
	if event := c.lastEvent(claimRef(claim), "VolumeResizeFailed"); event != nil {
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	}
	f.Fix = []Step{{
		Text: fmt.Sprintf(
			"Ask for less, but for more than the %s that the volume has; the expansion goes on from there",
			has.String(),
		),
		Command: shell.Command("kubectl -n %s edit pvc %s", claim.Namespace, claim.Name),
	}}
	return f
}

// nodeExpansion is about a volume that is larger and a filesystem that is not yet.
func (c *Cluster) nodeExpansion(claim *corev1.PersistentVolumeClaim, f Finding) Finding {
	f.Reason = verdict.ResizeOnNode
	running := c.runningUser(claim)
	if running == nil {
		f.Actor, f.WaitsFor = User, "a pod that uses the claim: the volume is larger, and its filesystem is expanded "+
			"where it is mounted"
		f.Fix = []Step{{Text: "Start a pod that uses the claim; nothing else is needed"}}
		return f
	}
	f.Actor, f.WaitsFor = Itself, fmt.Sprintf(
		"the kubelet of node %s to expand the filesystem of the volume that pod %s uses", running.Spec.NodeName,
		running.Name,
	)
	f.Evidence = append(f.Evidence, Evidence{podRef(running), "spec.nodeName", running.Spec.NodeName, ""})
	event := c.lastEventNotBy(resizerName, podRef(running), "FileSystemResizeFailed", "VolumeResizeFailed")
	if event == nil {
		event = c.lastEventNotBy(resizerName, claimRef(claim), "FileSystemResizeFailed", "VolumeResizeFailed")
	}
	if event != nil {
		if found, is := c.secretForbiddenByEvent(event, kubeletAccount, c.secretsOfBound(claim), f); is {
			return found
		}
		answer := readAnswer(c.driverOfClaim(keyOf(claim)), event.Message)
		f.Actor, f.WaitsFor = answer.actor, "the node side of the expansion, which failed: "+said(event, answer.words)
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
		f.Fix = []Step{answer.step, {
			Text: "Some drivers expand a filesystem only when it is mounted anew: restart the pod",
			Risk: "the pod is stopped meanwhile",
		}}
	}
	return f
}

func (c *Cluster) runningUser(claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	for _, pod := range c.index.users[keyOf(claim)] {
		if pod.Spec.NodeName != "" && !isFinished(pod) {
			return pod
		}
	}
	return nil
}

// controllerExpansion is about an expansion that the resizer has not done.
func (c *Cluster) controllerExpansion(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume,
	f Finding,
) Finding {
	class := c.index.classes[objects.ClaimClass(claim)]
	if class != nil && (class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion) {
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: Class, Name: class.Name}, "allowVolumeExpansion", "not true", "true",
		})
	}
	if pv.Spec.CSI == nil {
		f = f.about(volumeRef(pv)).waits(verdict.ResizeRefused, Administrator,
			"nothing: the volume is not served by a CSI driver, and nothing else expands volumes")
		f.Evidence = append(f.Evidence, Evidence{volumeRef(pv), "spec.csi", "absent", "a CSI driver"})
		f.Fix = []Step{{Text: "Copy the data to a volume of a driver that can expand"}}
		return f
	}
	driver := pv.Spec.CSI.Driver
	event := c.lastEventNotBy(kubeletName, claimRef(claim), "VolumeResizeFailed")
	if state, _ := c.healthOf(resizer(driver)); state == expired || state == noLease && event == nil &&
		c.lastEvent(claimRef(claim), "Resizing") == nil {
		f = f.about(Ref{Kind: CSIDriver, Name: driver}).waits(verdict.ResizerSilent, Administrator,
			"%s, which shows no sign of life", resizer(driver).name)
		f.Evidence = append(f.Evidence, c.leaseEvidence(resizer(driver))...)
		f.Fix = []Step{{
			Text: "Does the driver's controller pod have a csi-resizer container, and what does it say? Without " +
				"one nothing expands volumes",
			Command: "kubectl get pods -A | grep -i csi",
		}}
		return c.byRunner(resizer(driver), f)
	}
	if event != nil {
		return c.expansionFailed(claim, driver, event, f)
	}
	f.Reason, f.Actor, f.WaitsFor = verdict.ExpansionAwaited, Itself, resizer(driver).name+" to expand the volume"
	f.Evidence = append(f.Evidence, c.leaseEvidence(resizer(driver))...)
	return f
}

// expansionFailed is about the last attempt of the resizer.
func (c *Cluster) expansionFailed(
	claim *corev1.PersistentVolumeClaim, driver string, event *corev1.Event, f Finding,
) Finding {
	if found, is := c.secretForbiddenByEvent(event, resizerAccount, c.secretsOfBound(claim), f); is {
		return found
	}
	if found, is := c.told(event, f); is {
		return found
	}
	answer := readAnswer(driver, event.Message)
	f = f.waits(
		verdict.ResizeFailed, answer.actor, "the driver to expand the volume; it failed: %s", said(event, answer.words),
	)
	f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	f.Fix = []Step{answer.step, {Text: "It is repeated by itself; a smaller size can be asked for meanwhile"}}
	return f
}

// claimModification explains a claim whose VolumeAttributesClass is not the one that it asks for
// (KEP-3751).
func (c *Cluster) claimModification(claim *corev1.PersistentVolumeClaim) []Finding {
	wants, has := deref(claim.Spec.VolumeAttributesClassName), deref(claim.Status.CurrentVolumeAttributesClassName)
	if wants == has || wants == "" {
		return nil
	}
	f := Finding{
		Reason: verdict.ModificationAwaited, Object: claimRef(claim),
		Cause: Ref{Kind: AttributesClass, Name: wants}, Actor: Itself,
	}
	f.WaitsFor = fmt.Sprintf("the driver to give the volume the attributes of class %q", wants)
	f.Evidence = []Evidence{
		{claimRef(claim), "spec.volumeAttributesClassName", wants, ""},
		{claimRef(claim), "status.currentVolumeAttributesClassName", quoted(has), wants},
	}
	if status := claim.Status.ModifyVolumeStatus; status != nil {
		f.Evidence = append(f.Evidence, Evidence{
			claimRef(claim), "status.modifyVolumeStatus",
			fmt.Sprintf("%s, target %q", status.Status, status.TargetVolumeAttributesClassName), "",
		})
	}
	return []Finding{c.notModified(claim, wants, f)}
}

// notModified names what keeps a claim from the class that it names.
func (c *Cluster) notModified(claim *corev1.PersistentVolumeClaim, wants string, f Finding) Finding {
	decided := c.decideModification(claim).Because()
	f = f.by(decided, "")
	status, target := claim.Status.ModifyVolumeStatus, resizing.Target(claim)
	switch event := c.lastEvent(claimRef(claim), "VolumeModifyFailed"); {
	case c.attributesClass(wants) == nil && !c.lacks(AttributesClass):
		f = f.waits(verdict.ModifyClassMissing, Administrator, "VolumeAttributesClass %q, which does not exist", wants)
		f.Fix = []Step{{
			Text: "Create the class, or name one that exists", Command: "kubectl get volumeattributesclass",
		}}
	case decided.Reason == verdict.ModifyClassNotOurs:
		f = c.classOfOtherDriver(claim, decided, f)
	case status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible:
		f = f.waits(verdict.ModifyRefused, User, "a class that the driver accepts; it refuses %q", wants)
		if event != nil {
			f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
		}
		f.Fix = []Step{{
			Text:    "Name the previous class again, that of status.currentVolumeAttributesClassName, or another one",
			Command: shell.Command("kubectl -n %s edit pvc %s", claim.Namespace, claim.Name),
		}}
	case event == nil && target != "" && target != wants:
		f = otherClassFirst(claim, target, f)
	case event != nil:
		if found, is := c.secretForbiddenByEvent(event, resizerAccount, c.secretsOfBound(claim), f); is {
			return found
		}
		if found, is := c.told(event, f); is {
			return found
		}
		answer := readAnswer(c.driverOfClaim(keyOf(claim)), event.Message)
		f.Reason, f.Actor = verdict.ModifyFailed, Administrator
		f.Fix = []Step{{Text: "The driver failed: " + said(event, answer.words)}}
		if answer.code != "" || answer.isKnown {
			f.Actor, f.Fix = answer.actor, append(f.Fix, answer.step)
		}
		f.Evidence = append(f.Evidence, eventEvidence(event, c.Now))
	}
	return f
}
