package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// nodePlugin returns the DaemonSet of a driver's node plugin; nil if it is not known.
func (c *Cluster) nodePlugin(driver string) *workload {
	return c.best(driver, func(w *workload) bool {
		return w.ref.Kind == DaemonSet && (hasContainer(w.spec, registrar) || w.score(driver) > 9)
	})
}

// byNodePlugin completes a finding that a driver is not registered on a node. The DaemonSet of the
// driver may have a pod there that is not ready, none because of the node's labels or taints, or
// none at all. A refusal by the kubelet that is older than the pod, or without one, has passed.
func (c *Cluster) byNodePlugin(driver, node string, f Finding) Finding {
	w, refusal := c.nodePlugin(driver), c.refusalByKubelet(driver, node)
	if w == nil || c.lacks(Pod) || c.index.nodes[node] == nil {
		return c.refusedByKubelet(refusal, driver, node, f)
	}
	for _, pod := range c.index.podsOf[w.ref] {
		if pod.Spec.NodeName != node {
			continue
		}
		if refusal != nil && !isBefore(refusal, pod.CreationTimestamp) {
			return c.refusedByKubelet(refusal, driver, node, f)
		}
		f.WaitsFor = fmt.Sprintf("driver %q to be registered on node %s by pod %s of %s", driver, node, pod.Name, w)
		f.Evidence = append(f.Evidence, Evidence{podRef(pod), "spec.nodeName", node, ""})
		f.Fix = []Step{{
			Text:    "The pod is there: read what its registrar says",
			Command: shell.Command("kubectl -n %s logs %s -c %s", pod.Namespace, pod.Name, registrarOf(&pod.Spec)),
		}}
		if !isPodReady(pod) {
			f.Cause = podRef(pod)
		}
		return f
	}
	f.Cause = w.ref
	f.Evidence = append(f.Evidence, Evidence{w.ref, "pods on node " + node, "none", "one"})
	f.WaitsFor = fmt.Sprintf("driver %q to be registered on node %s, where %s has no pod", driver, node, w)
	f.Fix = []Step{{
		Text:    "Read why the DaemonSet has no pod on the node",
		Command: shell.Command("kubectl describe %s %s", w.ref.Kind.Short(), w.ref.Name).In(w.ref.Namespace),
	}}
	if kept := keptAway(w, c.index.nodes[node]); kept != nil {
		f.Reason = verdict.NodePluginKeptAway
		f.WaitsFor = fmt.Sprintf("driver %q to be registered on node %s, which %s is kept away from", driver, node, w)
		f.Evidence = append(f.Evidence, kept...)
		f.Fix = []Step{{
			Text: "Correct the tolerations or the node selector in the values of the driver's installation, " +
				"or run pods with its volumes on other nodes",
			Command: f.Fix[0].Command,
		}}
	}
	return f
}

func registrarOf(spec *corev1.PodSpec) string {
	for _, container := range spec.Containers {
		if one := (&corev1.PodSpec{Containers: []corev1.Container{container}}); hasContainer(one, registrar) {
			return container.Name
		}
	}
	return spec.Containers[0].Name
}

// keptAway returns the labels and taints of a node for which a DaemonSet has no pod there.
func keptAway(w *workload, node *corev1.Node) (proof []Evidence) {
	ref := Ref{Kind: Node, Name: node.Name}
	for key, value := range w.spec.NodeSelector {
		if has, is := node.Labels[key]; !is || has != value {
			proof = append(proof, Evidence{ref, "metadata.labels[" + key + "]", quoted(has), value})
		}
	}
	if affinity := w.spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if required != nil && !objects.MatchesNode(required, node.Name, node.Labels) {
			proof = append(proof, Evidence{
				ref, "metadata.labels", "other than the DaemonSet's node affinity", "labels that match",
			})
		}
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !alwaysTolerated[taint.Key] &&
			!slices.ContainsFunc(w.spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, *taint) }) {
			proof = append(proof, Evidence{
				ref, "spec.taints", taint.ToString(), "a taint that the DaemonSet tolerates",
			})
		}
	}
	return proof
}

// alwaysTolerated are taints that the DaemonSet controller adds tolerations for.
var alwaysTolerated = map[string]bool{
	corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeDiskPressure: true,
	corev1.TaintNodeMemoryPressure: true, corev1.TaintNodePIDPressure: true, corev1.TaintNodeUnschedulable: true,
}

// refusalByKubelet returns the newest event of the registrar on the Node about the driver if it is a
// refusal by the kubelet (NR-H4); nil if the kubelet has registered the driver since.
func (c *Cluster) refusalByKubelet(driver, node string) *corev1.Event {
	about := Ref{Kind: Node, Name: node}
	for _, event := range c.index.events[about] {
		isRefusal := event.Reason == string(verdict.RegistrationRefused)
		isAnswer := isRefusal || event.Reason == string(verdict.RegistrationAccepted)
		if !isAnswer || !strings.Contains(event.Message, " "+driver+" ") || c.contradicted(about, event) {
			continue
		}
		if isRefusal {
			return event
		}
		return nil
	}
	return nil
}

// refusedByKubelet adds the refusal by the kubelet, if there is one.
func (c *Cluster) refusedByKubelet(refusal *corev1.Event, driver, node string, f Finding) Finding {
	if refusal == nil {
		return f
	}
	f = f.waits(verdict.RegistrationRefused, Administrator, "the kubelet of node %s to register driver %q, which it "+
		"refused: %s", node, driver, said(refusal, refusal.Message))
	f.Evidence = append(f.Evidence, eventEvidence(refusal, c.Now))
	f.Fix = []Step{{
		Text:    verdict.Advice(verdict.RegistrationRefused),
		Command: shell.Command("kubectl describe node %s", node),
	}}
	return f
}
