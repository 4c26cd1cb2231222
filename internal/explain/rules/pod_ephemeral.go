package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// ephemeralTaken is about an ephemeral volume for which there is a claim of its name that another pod, or a
// user, created. The name is the pod's, a dash and the volume's, so two pods can want the same.
func ephemeralTaken(pod *corev1.Pod, volume podVolume, claim *corev1.PersistentVolumeClaim) Finding {
	owner := "none"
	if of := metav1.GetControllerOf(claim); of != nil {
		owner = fmt.Sprintf("%s %s, uid %s", of.Kind, of.Name, of.UID)
	}
	f := findingAbout(podRef(pod), &pod.CreationTimestamp.Time).about(claimRef(claim)).waits(
		verdict.EphemeralTaken, User, "a claim of its own for its ephemeral volume %s: claim %s was not created for it",
		volume.name, claim.Name)
	f.Evidence = []Evidence{{
		claimRef(claim), "metadata.ownerReferences", owner, fmt.Sprintf("Pod %s, uid %s", pod.Name, pod.UID),
	}}
	f.Fix = []Step{
		{
			Text:    "If nothing needs the claim, delete it; one for the pod is then created",
			Command: shell.Command("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name),
			Risk:    "the data of the claim is lost with policy Delete",
		},
		{Text: "Otherwise give the pod or its volume another name, so that the name of the claim differs"},
	}
	return f
}

// ephemeralMissing is about the claim of an ephemeral volume that the API server refuses, or that
// kube-controller-manager has not created.
func (c *Cluster) ephemeralMissing(pod *corev1.Pod, volume podVolume) Finding {
	ref := Ref{Claim, volume.claim.Namespace, volume.claim.Name}
	f := Finding{Object: podRef(pod), Cause: ref, Actor: Administrator, Since: &pod.CreationTimestamp.Time}
	f.Evidence = []Evidence{{
		ref, "metadata.name", "there is no such claim", "one that is created for the ephemeral volume " + volume.name,
	}}
	chain := []Link{{f.Object, fmt.Sprintf("claim %s of its ephemeral volume, which does not exist", ref.Name)}}
	for _, event := range []*corev1.Event{c.lastEvent(f.Object, "FailedBinding"), c.lastRefusal(ref)} {
		if event != nil && isClassified(event.Message) {
			if found, is := c.refusedBy(event, f); is {
				return chained(found, append(chain, Link{ref, found.WaitsFor}))
			}
		}
	}
	if found, is := c.claimRefused(&volume.template.Spec, f); is {
		return chained(found, append(chain, Link{ref, found.WaitsFor}))
	}
	event := c.lastEvent(f.Object, "FailedBinding")
	if event != nil && !strings.Contains(event.Message, "was not created for pod") {
		return c.toldAs(verdict.EphemeralFailed, Administrator, event, f)
	}
	f = f.waits(verdict.PodClaimMissing, Itself, "%s", chain[0].WaitsFor)
	until := pod.CreationTimestamp.Add(2 * time.Minute)
	f.Until = &until
	if c.Now.Before(until) {
		return f
	}
	f.Until, f.Actor = nil, Administrator
	f.Cause = Ref{Kind: Lease, Namespace: "kube-system", Name: controllerManager.lease}
	f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
	f.Fix = []Step{{
		Text:    "kube-controller-manager creates it: see whether it runs, and what its events about the pod say",
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	return c.byRunner(controllerManager, f)
}
