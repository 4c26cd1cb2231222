package explain

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// A step goes on by itself only if the program that takes it runs. These are the programs by the
// reason of the step: a controller, which a lease shows, or the kubelet of a node.

// bySchedulerAlone are steps of the scheduler.
var bySchedulerAlone = []verdict.Reason{verdict.WaitForPodScheduled, verdict.PreemptionUnderWay}

// byKubelet are steps of the kubelet of the node that the finding is about.
var byKubelet = []verdict.Reason{
	verdict.DetachAwaitsUnmount, verdict.ResizeOnNode, verdict.PodStopping, verdict.PermissionChangeUnderWay,
	verdict.PreemptionUnderWay, verdict.ClaimUsedByOtherPod, verdict.UnmountFailed, verdict.MultiAttach,
}

// byDriver are the sidecars of a driver that take a step.
var byDriver = map[verdict.Reason]func(driver string) component{
	verdict.ExternalProvisioning: provisioner, verdict.HandedOver: provisioner, verdict.VolumeReclaim: provisioner,
	verdict.SourceNotReady: provisioner, verdict.AttachUnderWay: attacher, verdict.VolumeAttached: attacher,
	verdict.ExpansionAwaited: resizer, verdict.ModificationAwaited: resizer,
	verdict.SnapshotUnderWay: snapshotter, verdict.ContentAwaitsFinalizer: snapshotter,
}

// stalled returns the finding with the administrator as its actor if the program that has to take
// the step does not run; the finding as it is otherwise. What is not known to be stopped counts as
// running.
func (c *Cluster) stalled(f Finding) Finding {
	if node := c.nodeOf(f); node != "" && slices.Contains(byKubelet, f.Reason) && !c.lacks(Node) {
		if object := c.index.nodes[node]; object == nil || !isReady(object) {
			return c.untaken(f, c.nodeEvidence(node), c.nodeFix(node)...)
		} else if proof := c.agentAbsent(object); proof != nil {
			return c.untaken(f, *proof, Step{
				Text:    "See whether a kubelet, or purser node with the right to mount, runs on the node",
				Command: shell.Command("kubectl describe node %s", node),
			})
		}
	}
	of := controllerManager
	switch sidecar, is := byDriver[f.Reason]; {
	case is && c.driverOfFinding(f) != "":
		of = sidecar(c.driverOfFinding(f))
	case is:
		return f
	case slices.Contains(bySchedulerAlone, f.Reason):
		of = scheduler
	case slices.Contains(byKubelet, f.Reason) && f.Reason != verdict.MultiAttach:
		return f
	}
	if state, _ := c.healthOf(of); state != expired {
		return f
	}
	f = c.untaken(f, c.leaseEvidence(of)[0], Step{
		Text:    fmt.Sprintf("Bring back %s, whose lease is not renewed", of.name),
		Command: "kubectl get pods,lease -A",
	})
	return c.byRunner(of, f)
}

// agentAbsent returns what shows that no program acts for a node that is ready by its status: a
// lease that is not renewed, which no controller turns into a condition; or a node without a
// kubelet on which the node agent has served no pod. It is nil if nothing shows that.
func (c *Cluster) agentAbsent(node *corev1.Node) *Evidence {
	for _, lease := range c.Leases {
		if lease.Namespace == corev1.NamespaceNodeLease && lease.Name == node.Name {
			if c.Now.Before(renewTime(lease).Add(ordinary)) {
				return nil
			}
			return &Evidence{
				Ref{Lease, lease.Namespace, lease.Name},
				"spec.renewTime", age(c.Now.Sub(renewTime(lease))) + " ago",
				"less than a minute ago",
			}
		}
	}
	withoutKubelet := slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Reason == readyWithoutKubelet
	})
	served := func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == names.ConditionVolumesPublished
		})
	}
	if !withoutKubelet || slices.ContainsFunc(c.index.podsOn[node.Name], served) {
		return nil
	}
	return &Evidence{
		Ref{Kind: Node, Name: node.Name},
		"status.conditions[Ready].reason", readyWithoutKubelet,
		"a pod on the node with the condition " + names.ConditionVolumesPublished,
	}
}

// readyWithoutKubelet is the reason of the condition Ready on nodes of `purser up`.
const readyWithoutKubelet = "PurserUp"

// untaken returns a finding about a step that no program takes.
func (c *Cluster) untaken(f Finding, proof Evidence, fix ...Step) Finding {
	f.Actor, f.Until = Administrator, nil
	f.Evidence, f.Fix = append(slices.Clone(f.Evidence), proof), fix
	return f
}

// nodeOf returns the node that a finding is about: its cause, or that of its cause or object; empty
// for none.
func (c *Cluster) nodeOf(f Finding) string {
	for _, e := range f.Evidence {
		if e.Object.Kind == Pod && e.Field == "spec.nodeName" {
			return e.Value
		}
	}
	for _, ref := range []Ref{f.Cause, f.Object} {
		switch ref.Kind {
		case Node:
			return ref.Name
		case Pod:
			if pod := c.index.pods[ref.key()]; pod != nil {
				return pod.Spec.NodeName
			}
		case Attachment:
			if va := c.attachmentNamed(ref.Name); va != nil {
				return va.Spec.NodeName
			}
		default:
		}
	}
	return ""
}

// driverOfFinding returns the driver that a finding is about; empty if it is not known.
func (c *Cluster) driverOfFinding(f Finding) string {
	for _, ref := range []Ref{f.Cause, f.Object} {
		switch ref.Kind {
		case CSIDriver:
			return ref.Name
		case Attachment:
			if va := c.attachmentNamed(ref.Name); va != nil {
				return va.Spec.Attacher
			}
		case Volume:
			if pv := c.index.volumes[ref.Name]; pv != nil {
				return driverOfVolume(&corev1.PersistentVolumeClaim{}, pv)
			}
		case Content:
			if content := c.index.contents[ref.Name]; content != nil {
				return content.Spec.Driver
			}
		case Claim:
			if driver := c.driverOfClaim(ref.key()); driver != "" {
				return driver
			}
			if claim := c.claimOf(ref); claim != nil {
				if class := c.index.classes[deref(claim.Spec.StorageClassName)]; class != nil {
					return class.Provisioner
				}
			}
		default:
		}
	}
	return ""
}
