package explain

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/size"
)

// The components that write events with a reason which another component uses too, as they name
// themselves.
const (
	binderName  = "persistentvolume-controller"
	resizerName = "external-resizer"
	kubeletName = "kubelet"
)

// lastEvent returns the newest event about the object with one of the reasons; nil for none. Any
// user of a namespace can write an event in it, so one that fields of the object contradict does
// not count.
func (c *Cluster) lastEvent(about Ref, reasons ...string) *corev1.Event {
	return c.lastEventNotBy("", about, reasons...)
}

// lastEventNotBy is [Cluster.lastEvent] without the events of one component.
func (c *Cluster) lastEventNotBy(component string, about Ref, reasons ...string) *corev1.Event {
	for _, event := range c.index.events[about] {
		if slices.Contains(reasons, event.Reason) && !c.contradicted(about, event) &&
			(component == "" || !strings.HasPrefix(speaker(event), component)) {
			return event
		}
	}
	return nil
}

// clockSkew is by how much the clocks of two machines may differ.
const clockSkew = time.Minute

// contradicted reports whether an event cannot be about the object as it is: it is about an earlier
// object of the name, is older than the object, is of the future, has passed, is from the kubelet
// of a node that has nothing to do with it, or says what fields of the object exclude.
func (c *Cluster) contradicted(about Ref, event *corev1.Event) bool {
	if EventTime(event).After(c.Now.Add(clockSkew)) || c.refuted(about, event) {
		return true
	}
	object := c.metaOf(about)
	if object == nil {
		return false
	}
	if isOfEarlier(object, event) {
		return true
	}
	host := ""
	if speaker(event) == kubeletName {
		host = event.Source.Host
	}
	switch object := object.(type) {
	case *corev1.Pod:
		return host != "" && host != object.Spec.NodeName || c.contradictedByPod(object, event)
	case *corev1.PersistentVolumeClaim:
		return host != "" && !c.isUsedOn(object, host) || contradictedByClaim(object, event)
	case *corev1.PersistentVolume:
		return contradictedByVolume(object, event)
	}
	return false
}

// isOfEarlier reports whether an event is about an earlier object of the name. A kubelet's events about
// its Node have the name of the node as the uid.
func isOfEarlier(object metav1.Object, event *corev1.Event) bool {
	uid := event.InvolvedObject.UID
	return uid != "" && object.GetUID() != "" && uid != object.GetUID() && string(uid) != object.GetName() ||
		isBefore(event, object.GetCreationTimestamp())
}

// isBefore reports whether an event is older than a time, as far as clocks tell.
func isBefore(event *corev1.Event, t metav1.Time) bool {
	at := EventTime(event)
	return !at.IsZero() && !t.IsZero() && at.Before(t.Add(-clockSkew))
}

// isUsedOn reports whether a pod on the node names the claim.
func (c *Cluster) isUsedOn(claim *corev1.PersistentVolumeClaim, node string) bool {
	return c.lacks(Pod) || slices.ContainsFunc(c.index.users[keyOf(claim)], func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == node
	})
}

func (c *Cluster) contradictedByPod(pod *corev1.Pod, event *corev1.Event) bool {
	switch event.Reason {
	case "FailedMount", "FailedMapVolume":
		return VolumesMounted(pod)
	case "FailedAttachVolume":
		return VolumesMounted(pod) || c.allAttached(pod)
	case "FailedUnMount", "FailedUnmount":
		return c.noneInUse(pod)
	}
	return false
}

// noneInUse reports whether the pod's node says that it does not use the pod's volumes any more. It
// says so of volumes that are attached only.
func (c *Cluster) noneInUse(pod *corev1.Pod) bool {
	node, volumes := c.index.nodes[pod.Spec.NodeName], podVolumes(pod)
	if node == nil || len(volumes) == 0 || len(volumes) < len(pod.Spec.Volumes) {
		return false
	}
	for _, volume := range volumes {
		claim := c.index.claims[volume.claim]
		if claim == nil {
			return false
		}
		pv := c.index.volumes[claim.Spec.VolumeName]
		if pv == nil || pv.Spec.CSI == nil || !c.attachRequired(pv.Spec.CSI.Driver) ||
			slices.Contains(node.Status.VolumesInUse, uniqueName(pv)) {
			return false
		}
	}
	return true
}

func contradictedByClaim(claim *corev1.PersistentVolumeClaim, event *corev1.Event) bool {
	switch event.Reason {
	case "Provisioning", "ProvisioningFailed", "ExternalProvisioning":
		return claim.Status.Phase == corev1.ClaimBound
	case "Resizing", "VolumeResizeFailed", "FileSystemResizeFailed", "FileSystemResizeRequired":
		wants := claim.Spec.Resources.Requests[corev1.ResourceStorage]
		has := claim.Status.Capacity[corev1.ResourceStorage]
		return size.Compare(wants, has) <= 0 || isBeforeCondition(claim, event,
			corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending)
	case "VolumeModify", "VolumeModifyFailed":
		return deref(claim.Spec.VolumeAttributesClassName) == deref(claim.Status.CurrentVolumeAttributesClassName) ||
			isBeforeCondition(claim, event, corev1.PersistentVolumeClaimVolumeModifyingVolume,
				corev1.PersistentVolumeClaimVolumeModifyVolumeError)
	}
	return false
}

// isBeforeCondition reports whether the event is older than the present change of the claim, which
// the conditions with status True show.
func isBeforeCondition(
	claim *corev1.PersistentVolumeClaim, event *corev1.Event, kinds ...corev1.PersistentVolumeClaimConditionType,
) bool {
	return slices.ContainsFunc(kinds, func(kind corev1.PersistentVolumeClaimConditionType) bool {
		condition := conditionOf(claim, kind)
		return condition != nil && isBefore(event, condition.LastTransitionTime)
	})
}

func contradictedByVolume(pv *corev1.PersistentVolume, event *corev1.Event) bool {
	if event.Reason != "VolumeFailedDelete" {
		return false
	}
	switch pv.Status.Phase {
	case corev1.VolumeBound, corev1.VolumeAvailable:
		return pv.DeletionTimestamp == nil
	case corev1.VolumeReleased:
		return pv.Status.LastPhaseTransitionTime != nil && isBefore(event, *pv.Status.LastPhaseTransitionTime)
	default:
		return false
	}
}
