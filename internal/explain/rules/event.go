package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/names"
)

// metaOf returns the object of a reference; nil if it was not read.
func (c *Cluster) metaOf(ref Ref) metav1.Object {
	key := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	switch ref.Kind {
	case Claim:
		if claim := c.index.claims[key]; claim != nil {
			return claim
		}
	case Pod:
		if pod := c.index.pods[key]; pod != nil {
			return pod
		}
	case Volume:
		if pv := c.index.volumes[ref.Name]; pv != nil {
			return pv
		}
	default:
	}
	return nil
}

// mountFailure returns the kubelet's newest event about a volume of the pod that is not mounted, or
// the one that says why, if the newest does not. It is nil if there is none, or if fields of the
// pod show that its volumes are mounted.
func (c *Cluster) mountFailure(pod *corev1.Pod) *corev1.Event {
	if VolumesMounted(pod) {
		return nil
	}
	reasons := []string{"FailedMount", "FailedMapVolume"}
	if !c.allAttached(pod) {
		reasons = append(reasons, "FailedAttachVolume")
	}
	var newest *corev1.Event
	for _, event := range c.index.events[podRef(pod)] {
		if !slices.Contains(reasons, event.Reason) || c.contradicted(podRef(pod), event) ||
			!c.namesVolumeOf(pod, event) {
			continue
		}
		if newest != nil && EventTime(newest).Sub(EventTime(event)) > sameFailure {
			break
		}
		if !isWaitTimeout(event.Message) {
			return event
		}
		if newest == nil {
			newest = event
		}
	}
	return newest
}

// sameFailure is how much older than the kubelet's wait that timed out the cause of it may be. The
// kubelet waits for two minutes, and repeats an attempt after at most two.
const sameFailure = 10 * time.Minute

// isWaitTimeout reports whether a message only says that volumes are not mounted, and another says
// why.
func isWaitTimeout(message string) bool {
	return strings.HasPrefix(message, "Unable to ") && (strings.Contains(message, "timed out waiting") ||
		strings.Contains(message, "timeout expired waiting") || strings.HasSuffix(message, "context deadline exceeded"))
}

// podReadyToStart is set by a kubelet when the pod's sandbox runs, which it starts after the
// volumes are mounted.
const podReadyToStart = "PodReadyToStartContainers"

// VolumesMounted reports whether a condition or a container of the pod shows that its volumes are
// mounted: a container waits for something that comes after them, such as its image.
func VolumesMounted(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if (condition.Type == podReadyToStart || condition.Type == names.ConditionVolumesPublished) &&
			condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waits := status.State.Waiting; waits != nil &&
			!slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waits.Reason) {
			return true
		}
	}
	return isStarted(pod)
}

// allAttached reports whether the objects show that every volume of the pod that must be attached
// is. Attachments of volumes without CSI are not read.
func (c *Cluster) allAttached(pod *corev1.Pod) bool {
	if c.lacks(Attachment) || c.lacks(CSIDriver) || c.lacks(Claim) || c.lacks(Volume) {
		return false
	}
	for _, volume := range podVolumes(pod) {
		claim := c.index.claims[volume.claim]
		if claim == nil {
			return false
		}
		pv := c.index.volumes[claim.Spec.VolumeName]
		if pv == nil || pv.Spec.CSI == nil {
			return false
		}
		attached := !c.attachRequired(pv.Spec.CSI.Driver)
		for _, va := range c.index.attachments[pv.Name] {
			attached = attached || va.Spec.NodeName == pod.Spec.NodeName && va.Status.Attached
		}
		if !attached {
			return false
		}
	}
	return true
}

// The kubelet names the volume in its messages: a volume of the pod, or its PersistentVolume.
var (
	volumeInMessage  = regexp.MustCompile(`for volume "([^"]*)"`)
	volumesInMessage = regexp.MustCompile(`unmounted volumes=\[([^\]]*)\]`)
)

// namesVolumeOf reports whether a message names a volume of the pod, or none at all.
func (c *Cluster) namesVolumeOf(pod *corev1.Pod, event *corev1.Event) bool {
	var named []string
	for _, found := range volumeInMessage.FindAllStringSubmatch(event.Message, -1) {
		named = append(named, found[1])
	}
	for _, found := range volumesInMessage.FindAllStringSubmatch(event.Message, -1) {
		named = append(named, strings.Fields(found[1])...)
	}
	if len(named) == 0 || c.lacks(Claim) {
		return true
	}
	for i := range pod.Spec.Volumes {
		if slices.Contains(named, pod.Spec.Volumes[i].Name) {
			return true
		}
	}
	for _, volume := range podVolumes(pod) {
		if claim := c.index.claims[volume.claim]; claim != nil && slices.Contains(named, claim.Spec.VolumeName) {
			return true
		}
	}
	return false
}

// driverOfEvent returns the driver of the pod's volume that an event names, or of the only one that
// the pod has; empty if it is not known.
func (c *Cluster) driverOfEvent(pod *corev1.Pod, event *corev1.Event) string {
	volumes := podVolumes(pod)
	for _, volume := range volumes {
		claim := c.index.claims[volume.claim]
		isNamed := func(name string) bool { return name != "" && strings.Contains(event.Message, `"`+name+`"`) }
		if len(volumes) == 1 || isNamed(volume.name) || claim != nil && isNamed(claim.Spec.VolumeName) {
			return c.driverOfClaim(volume.claim)
		}
	}
	return ""
}

// driverOfClaim returns the CSI driver of a claim's volume; empty if it is not known.
func (c *Cluster) driverOfClaim(key types.NamespacedName) string {
	if claim := c.index.claims[key]; claim != nil {
		if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil && pv.Spec.CSI != nil {
			return pv.Spec.CSI.Driver
		}
	}
	return ""
}

// speaker returns the component that the event names as its author. Nothing proves it.
func speaker(event *corev1.Event) string {
	if event.ReportingController != "" {
		return event.ReportingController
	}
	return event.Source.Component
}

// quote marks words as those of another party, which the objects do not confirm.
func quote(words string) string {
	return "“" + strings.NewReplacer("“", `"`, "”", `"`).Replace(words) + "”"
}

// said quotes the words of an event in one line, with the component that it names as its author.
func said(event *corev1.Event, words string) string {
	by := speaker(event)
	if by == "" {
		by = "an event without an author"
	}
	return by + " says " + quote(firstLine(words))
}

func eventEvidence(event *corev1.Event, now time.Time) Evidence {
	ref := Ref{Kind(event.InvolvedObject.Kind), event.InvolvedObject.Namespace, event.InvolvedObject.Name}
	field := "event " + event.Reason
	if by := speaker(event); by != "" {
		field += " by " + by
	}
	return Evidence{
		ref, fmt.Sprintf("%s, %s ago", field, age(now.Sub(EventTime(event)))), quote(strings.TrimSpace(event.Message)),
		"",
	}
}

// firstLine keeps a sentence to one line.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	const most = 300
	if len(line) > most {
		return strings.ToValidUTF8(line[:most], "") + "…"
	}
	return line
}
