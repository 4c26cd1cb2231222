package explain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	volumehealth "github.com/purser-csi/purser/internal/health/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// claimHealth is about the problems of a bound volume that its driver reports: to the health monitor, which
// writes them into the claim or emits an event, or to a kubelet, which writes them into the pods.
func (c *Cluster) claimHealth(claim *corev1.PersistentVolumeClaim) []Finding {
	f := findingAbout(claimRef(claim), nil)
	if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil {
		f = f.about(volumeRef(pv))
	}
	event := c.lastEvent(claimRef(claim), volumeEvents...)
	if status := claim.Status.HealthStatus; status != nil && len(status.HealthConditions) > 0 {
		f.Since = sinceOf(status.LastTransitionTime.Time)
		return []Finding{flapping(event, unhealthy(f, claim, status.HealthConditions, "", Evidence{
			claimRef(claim), "status.healthStatus.healthConditions", quote(volumehealth.Text(status.HealthConditions)),
			"none",
		}))}
	}
	if event != nil && event.Reason == "VolumeConditionAbnormal" {
		f.Since = sinceOf(event.FirstTimestamp.Time)
		return []Finding{flapping(event, unhealthy(f, claim, nil, event.Message, eventEvidence(event, c.Now)))}
	}
	if found, is := c.told(event, f); is {
		found.Since = sinceOf(event.FirstTimestamp.Time)
		found.WaitsFor = "a problem of its volume to end, of a kind that is not known: " + said(event, event.Message)
		return []Finding{found}
	}
	for _, pod := range c.index.users[keyOf(claim)] {
		for _, p := range podProblems(pod) {
			if p.volume.claim == keyOf(claim) {
				f.Since = p.since
				return []Finding{unhealthy(f, claim, p.conditions, "", p.shown)}
			}
		}
	}
	return nil
}

// volumeEvents are those of the health monitor about a claim.
var volumeEvents = []string{"VolumeConditionAbnormal", "VolumeConditionNormal", "UnknownVolumeHealthCondition"}

// flapping narrows a finding down to problems that come and go, if the last event says so.
func flapping(event *corev1.Event, f Finding) Finding {
	if event == nil || reasonOf(event) != verdict.VolumeHealthFlapping {
		return f
	}
	f.Reason = verdict.VolumeHealthFlapping
	f.Fix = append(f.Fix, Step{Text: verdict.Advice(f.Reason)})
	return f
}

// podProblem is a volume of a pod of which the driver reports problems on the node of the pod.
type podProblem struct {
	volume     podVolume
	conditions volumehealth.Conditions
	since      *time.Time
	shown      Evidence
}

// podProblems are those that the kubelet has written into the status of a pod.
func podProblems(pod *corev1.Pod) (all []podProblem) {
	for _, volume := range podVolumes(pod) {
		for i := range pod.Status.VolumeHealth {
			entry := &pod.Status.VolumeHealth[i]
			if entry.Name != volume.name || len(entry.HealthConditions) == 0 {
				continue
			}
			all = append(all, podProblem{
				volume, entry.HealthConditions, sinceOf(entry.LastTransitionTime.Time), Evidence{
					podRef(pod), fmt.Sprintf("status.volumeHealth[%s].healthConditions", volume.name),
					quote(volumehealth.Text(entry.HealthConditions)), "none",
				},
			})
		}
	}
	return all
}

// podVolumesHealth is about a pod that runs with a volume that has problems.
func (c *Cluster) podVolumesHealth(pod *corev1.Pod) []Finding {
	if !isStarted(pod) || isFinished(pod) || pod.DeletionTimestamp != nil {
		return nil
	}
	for _, p := range podProblems(pod) {
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = p.volume.claim.Namespace, p.volume.claim.Name
		f := findingAbout(podRef(pod), p.since).about(claimRef(claim))
		return []Finding{unhealthy(f, claim, p.conditions, "", p.shown)}
	}
	for _, volume := range podVolumes(pod) {
		if claim := c.index.claims[volume.claim]; claim != nil && claim.Status.Phase == corev1.ClaimBound {
			if found := c.claimHealth(claim); len(found) > 0 {
				found[0].Object = podRef(pod)
				return found
			}
		}
	}
	return nil
}

// storageHealth is about the problems that drivers report of their storage on a node, which the kubelet
// writes into the CSINode.
func (c *Cluster) storageHealth(node string) (findings []Finding) {
	csiNode := c.index.csiNodes[node]
	if csiNode == nil {
		return nil
	}
	ref := Ref{Kind: CSINode, Name: node}
	for _, driver := range csiNode.Status.StorageHealth {
		for _, condition := range driver.HealthConditions {
			words := fmt.Sprintf("%s (%s)", condition.Status, condition.Reason)
			if condition.Message != "" {
				words += ": " + condition.Message
			}
			f := findingAbout(Ref{Kind: Node, Name: node}, sinceOf(condition.LastTransitionTime.Time)).about(ref).waits(
				verdict.StorageUnhealthy, Administrator,
				"the storage of driver %q to be repaired on the node: the driver reports %s",
				driver.Name, firstLine(words),
			)
			f.Evidence = []Evidence{{ref, "status.storageHealth[" + driver.Name + "]", quote(words), "none"}}
			f.Fix = []Step{{
				Text: "Does the node reach the storage system? The log of the driver's container on the node " +
					"says more. Until then pods with volumes of the driver may fail there",
				Command: shell.Command("kubectl get csinode %s -o yaml", node),
			}}
			findings = append(findings, f)
		}
	}
	return findings
}

// unhealthy is the finding about conditions, or about the words of an event.
func unhealthy(
	f Finding, claim *corev1.PersistentVolumeClaim, conditions volumehealth.Conditions, words string, shown Evidence,
) Finding {
	if words == "" {
		words = volumehealth.Text(conditions)
	}
	f = f.waits(verdict.VolumeHealthAbnormal, Administrator,
		"the storage of its volume to be repaired: the driver reports %s", firstLine(words))
	f.Evidence = []Evidence{shown}
	look := Step{
		Text: "The reason and the message are the driver's: its log and the storage system say more. The event " +
			"VolumeConditionNormal, and an empty status.healthStatus, say that the problem has ended",
		Command: shell.Command("kubectl -n %s describe pvc %s", claim.Namespace, claim.Name),
	}
	f.Fix = []Step{look}
	if worst := volumehealth.Worst(conditions); worst == corev1.VolumeHealthDataLoss {
		f.Fix = append(f.Fix, Step{
			Text: "Data is lost: restore it from a snapshot or a backup into a new claim",
			Risk: "what was written since then is not there",
		})
	}
	return f
}

// sinceOf returns nil for a time that is not set.
func sinceOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
