package explain

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is one port of a node that a container asks for.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

const anyAddress = "0.0.0.0"

func (p hostPort) conflicts(other hostPort) bool {
	return p.port == other.port && p.protocol == other.protocol &&
		(p.ip == other.ip || p.ip == anyAddress || other.ip == anyAddress)
}

func (p hostPort) String() string { return fmt.Sprintf("%d/%s", p.port, p.protocol) }

// hostPortsOf returns the host ports of the containers and of the sidecars among the init
// containers. The API server sets hostPort of a pod in the network of its host.
func hostPortsOf(pod *corev1.Pod) (all []hostPort) {
	containers := slices.Clone(pod.Spec.Containers)
	for _, container := range pod.Spec.InitContainers {
		if deref(container.RestartPolicy) == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, container)
		}
	}
	for _, container := range containers {
		for _, port := range container.Ports {
			if port.HostPort > 0 {
				all = append(all, hostPort{
					cmp.Or(port.HostIP, anyAddress), cmp.Or(port.Protocol, corev1.ProtocolTCP), port.HostPort,
				})
			}
		}
	}
	return all
}

// hostPortTaken is about a port of the node that a pod on it has (plugin NodePorts).
func (c *Cluster) hostPortTaken(pod *corev1.Pod, node *corev1.Node) (refusal, bool) {
	wanted := hostPortsOf(pod)
	if len(wanted) == 0 {
		return refusal{}, false
	}
	for _, other := range c.index.podsOn[node.Name] {
		if isFinished(other) {
			continue
		}
		for _, port := range wanted {
			if slices.ContainsFunc(hostPortsOf(other), port.conflicts) {
				return refusal{
					on:   podRef(other),
					what: fmt.Sprintf("host port %s is that of pod %s", port, other.Name),
					evidence: append([]Evidence{
						{podRef(other), "spec.containers[].ports[].hostPort", port.String(), "a free port"},
					}, c.sameWorkload(pod, other)...),
				}, true
			}
		}
	}
	return refusal{}, false
}

// sameWorkload has evidence if two pods belong to one workload that replaces its pods: a rolling
// update waits for the new pod before it ends the old one.
func (c *Cluster) sameWorkload(pod, other *corev1.Pod) []Evidence {
	for ref, pods := range c.index.podsOf {
		if ref.Kind == Deployment && slices.Contains(pods, pod) && slices.Contains(pods, other) {
			return []Evidence{{
				ref, "spec.strategy", "replaces pod " + other.Name + " by pod " + pod.Name + " after that is ready",
				"Recreate, or maxSurge: 0, which end the old pod first",
			}}
		}
	}
	return nil
}
