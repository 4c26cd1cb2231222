package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// byRunner completes a finding that a component shows no sign of life. Its cause becomes what runs
// the component, and the chain goes on from there:
//
//   - a workload: scaled to 0; without pods; with pods of which none is ready, and the pod is explained
//   - static pods: the one that is not ready
//   - a workload of the driver without the component's container
//   - no workload: the driver is not installed, or another driver has a similar name
func (c *Cluster) byRunner(of component, f Finding) Finding {
	state, _ := c.healthOf(of)
	if state == renewed || state == unknownHealth || c.lacks(Pod) {
		return f
	}
	if of.driver != "" && !c.isInstalled(of.driver) && c.nearest(of.driver) != "" {
		return c.withoutRunner(of, f)
	}
	by := c.runnerOf(of)
	switch unready := slices.IndexFunc(by.pods, func(pod *corev1.Pod) bool { return !isPodReady(pod) }); {
	case by.workload != nil:
		w := by.workload
		f.Cause, f.WaitsFor = w.ref, fmt.Sprintf("%s, which %s runs; it shows no sign of life", of.name, w)
		f.Evidence = append(f.Evidence, by.proof)
		if state == noLease && slices.ContainsFunc(by.pods, isPodReady) {
			f.WaitsFor = fmt.Sprintf("%s, which %s runs without a lease; it has not acted", of.name, w)
		}
		f.Fix = []Step{{
			Text: "A pod of it is ready, and no lease is renewed: read the log of the container " + of.sidecar,
			Command: shell.Command("kubectl logs %s/%s -c %s --tail=100", w.ref.Kind.Short(), w.ref.Name, of.sidecar).
				In(w.ref.Namespace),
		}}
	case unready >= 0:
		f.Cause = podRef(by.pods[unready])
		f.Evidence = append(f.Evidence, readyEvidence(by.pods[unready]))
	case of.driver != "":
		f = c.withoutRunner(of, f)
	case len(by.pods) > 0 || c.lacks(Deployment):
	case of.sidecar == snapshotController.sidecar:
		f.WaitsFor = of.name + ", which is not installed: no workload has its container"
		f.Fix = []Step{{Text: "Install the snapshot-controller, once in the cluster: drivers do not bring it"}}
	default:
		f.Evidence = append(f.Evidence, Evidence{f.Object, "pods of " + of.name, "none in the cluster", ""})
		f.Fix = append(f.Fix, Step{
			Text: "It has no pods in this cluster, as with a hosted control plane: read its log where that runs",
		})
	}
	return f
}

// withoutRunner is about a component that no workload runs.
func (c *Cluster) withoutRunner(of component, f Finding) Finding {
	part := c.best(of.driver, func(w *workload) bool {
		return HasSidecar(w.spec) && !hasContainer(w.spec, registrar)
	})
	if part == nil {
		part = c.nodePlugin(of.driver)
	}
	near := c.nearest(of.driver)
	switch {
	case part != nil && c.isInstalled(of.driver):
		f.Reason, f.Cause = verdict.SidecarMissing, part.ref
		f.WaitsFor = fmt.Sprintf("%s: no workload of the driver has a container %s", of.name, of.sidecar)
		f.Evidence = append(f.Evidence, Evidence{
			part.ref, "spec.template.spec.containers", containerNames(part.spec), of.sidecar,
		})
		f.Fix = []Step{{
			Text: fmt.Sprintf("Turn on the container %s in the values of the driver's installation; "+
				"without it this request is never served", of.sidecar),
			Command: shell.Command("kubectl describe %s %s", part.ref.Kind.Short(), part.ref.Name).In(
				part.ref.Namespace,
			),
		}}
	case c.lacks(CSIDriver) || c.lacks(CSINode):
	case c.driverOf(of.driver) == nil && near != "":
		f.WaitsFor = fmt.Sprintf(
			"driver %q, which is not installed; the name of an installed one is %q", of.driver, near,
		)
		f.Evidence = append(f.Evidence, Evidence{Ref{Kind: CSIDriver, Name: near}, "metadata.name", near, ""})
		f.Fix = []Step{{
			Text: fmt.Sprintf("If %q is meant, create the class with that name. The provisioner of a class cannot be "+
				"changed: delete it and create it again, which leaves volumes as they are", near),
			Command: "kubectl get csidriver",
		}, {Text: fmt.Sprintf("Otherwise install the driver %q", of.driver)}}
	case c.lacks(Deployment) || c.lacks(StatefulSet) || c.lacks(DaemonSet):
	case !slices.ContainsFunc(c.CSINodes, func(n *storagev1.CSINode) bool { return c.registered(n.Name, of.driver) }):
		f.WaitsFor = fmt.Sprintf(
			"driver %q, which is not installed: no workload runs %s, and no node has the driver", of.driver, of.sidecar,
		)
		f.Evidence = append(f.Evidence, Evidence{
			Ref{Kind: CSIDriver, Name: of.driver}, "nodes with the driver", "none", "CSINodes that list it",
		})
		f.Fix = []Step{{
			Text: fmt.Sprintf(
				"Install the driver %q again. Nothing else can create, attach or delete its volumes", of.driver,
			),
			Command: "kubectl get csinode",
		}}
	}
	return f
}

func containerNames(spec *corev1.PodSpec) string {
	var names []string
	for _, container := range spec.Containers {
		names = append(names, container.Name)
	}
	return strings.Join(names, ", ")
}

func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func readyEvidence(pod *corev1.Pod) Evidence {
	return Evidence{podRef(pod), "status.conditions[Ready]", "not True; the pod is " + podState(pod), "True"}
}

// readLog gives a finding about a call that a driver does not answer the command for the driver's
// log. Its cause becomes the workload if no pod of that is ready.
func (c *Cluster) readLog(of component, f Finding) Finding {
	by := c.runnerOf(of)
	if by.workload == nil || len(by.pods) == 0 || len(f.Fix) == 0 {
		return f
	}
	f.Fix[0].Command = shell.Command("kubectl logs %s/%s --all-containers --tail=100", by.workload.ref.Kind.Short(),
		by.workload.ref.Name).In(by.workload.ref.Namespace)
	if !slices.ContainsFunc(by.pods, isPodReady) {
		f.Cause, f.Evidence = by.workload.ref, append(f.Evidence, by.proof)
	}
	return f
}

// podContainers explains a pod whose containers do not run, or whose node does not report.
func (c *Cluster) podContainers(pod *corev1.Pod) []Finding {
	if isPodReady(pod) {
		return nil
	}
	f := Finding{Object: podRef(pod), Cause: podRef(pod), Actor: Administrator, Since: &pod.CreationTimestamp.Time}
	node := c.index.nodes[pod.Spec.NodeName]
	if !c.lacks(Node) && pod.Spec.NodeName != "" && (node == nil || !isReady(node)) {
		f.Reason, f.Cause = verdict.NodeNotReady, Ref{Kind: Node, Name: pod.Spec.NodeName}
		f.WaitsFor = fmt.Sprintf("node %s, which does not report", pod.Spec.NodeName)
		f.Evidence, f.Fix = []Evidence{c.nodeEvidence(pod.Spec.NodeName)}, c.nodeFix(pod.Spec.NodeName)
		return []Finding{f}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		ended := status.State.Terminated
		if status.State.Waiting != nil && status.LastTerminationState.Terminated != nil {
			ended = status.LastTerminationState.Terminated
		}
		field := "status.containerStatuses[" + status.Name + "]"
		switch waiting := status.State.Waiting; {
		case ended != nil && (ended.ExitCode != 0 || waiting != nil):
			return []Finding{crashes(pod, status, ended, field, f)}
		case waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, waiting.Reason):
			return []Finding{notStarted(pod, status.Name, waiting, field, f)}
		}
	}
	return nil
}

// crashes is about a container that ended and is started again.
func crashes(
	pod *corev1.Pod, status corev1.ContainerStatus, ended *corev1.ContainerStateTerminated, field string, f Finding,
) Finding {
	f = f.waits(verdict.ContainerCrashes, Administrator,
		"its container %s, which ended with exit code %d (%s) and was restarted %d times",
		status.Name, ended.ExitCode, ended.Reason, status.RestartCount)
	how := fmt.Sprintf("exit code %d, %s %s", ended.ExitCode, ended.Reason, firstLine(ended.Message))
	f.Evidence = []Evidence{
		{podRef(pod), field + ".lastState.terminated", strings.TrimSpace(how), "a container that runs"},
	}
	f.Fix = []Step{{
		Text:    "Read what it wrote before it ended",
		Command: shell.Command("kubectl -n %s logs %s -c %s --previous", pod.Namespace, pod.Name, status.Name),
	}}
	if ended.Reason == "OOMKilled" {
		f.Fix = []Step{{Text: "Raise the memory limit of the container: it was killed because it used more"}}
	}
	return f
}

// notStarted is about a container that the kubelet cannot start.
func notStarted(
	pod *corev1.Pod, container string, waiting *corev1.ContainerStateWaiting, field string, f Finding,
) Finding {
	f = f.waits(verdict.ContainerNotStarted, Administrator, "its container %s to start: %s", container, waiting.Reason)
	f.Evidence = []Evidence{{podRef(pod), field + ".state.waiting", waiting.Reason + " " + waiting.Message, "running"}}
	f.Fix = []Step{{
		Text: "Correct what the message names: the name or the tag of the image, the credentials of its " +
			"registry, or a missing secret or config map",
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	return f
}
