package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// workload runs pods: a Deployment, StatefulSet, DaemonSet, Job, or a ReplicaSet.
type workload struct {
	ref    Ref
	wanted int32 // pods
	spec   *corev1.PodSpec
	labels map[string]string
	since  time.Time
	failed string // message of the condition ReplicaFailure, or of the one for which a Job has failed
	ended  bool   // a Job that is complete or has failed
	owner  Ref    // of a ReplicaSet: its Deployment
	set    *statefulSet
}

// statefulSet is what only a StatefulSet has.
type statefulSet struct {
	first     int32 // ordinal
	inOrder   bool  // a pod is created when the one before it is ready
	templates []corev1.PersistentVolumeClaim
}

func (w *workload) String() string { return fmt.Sprint(w.ref) }

func (w *workload) describe() shell.Line {
	return shell.Command("kubectl describe %s %s", w.ref.Kind.Short(), w.ref.Name).In(w.ref.Namespace)
}

func (c *Cluster) indexWorkloads() {
	x := &c.index
	x.workloads, x.revisions, x.podsOf = map[Ref]*workload{}, map[Ref]*workload{}, map[Ref][]*corev1.Pod{}
	for _, w := range slices.Concat(c.deployments(), c.statefulSets(), c.jobs()) {
		x.workloads[w.ref] = w
	}
	for _, o := range c.DaemonSets {
		w := newWorkload(DaemonSet, o.ObjectMeta, o.Status.DesiredNumberScheduled, &o.Spec.Template.Spec)
		x.workloads[w.ref] = w
	}
	for _, o := range c.ReplicaSets {
		w := newWorkload(ReplicaSet, o.ObjectMeta, derefOr(o.Spec.Replicas, 1), &o.Spec.Template.Spec)
		for _, condition := range o.Status.Conditions {
			if condition.Type == "ReplicaFailure" && condition.Status == corev1.ConditionTrue {
				w.failed = condition.Message
			}
		}
		if owner := metav1.GetControllerOf(o); owner != nil {
			w.owner = Ref{Kind(owner.Kind), o.Namespace, owner.Name}
			x.revisions[w.ref] = w
			continue
		}
		x.workloads[w.ref] = w
	}
	for _, pod := range c.Pods {
		owner := metav1.GetControllerOf(pod)
		if owner == nil {
			continue
		}
		ref := Ref{Kind(owner.Kind), pod.Namespace, owner.Name}
		if revision := x.revisions[ref]; revision != nil {
			x.podsOf[ref] = append(x.podsOf[ref], pod)
			ref = revision.owner
		} else if i := strings.LastIndex(ref.Name, "-"); ref.Kind == ReplicaSet && x.workloads[ref] == nil && i > 0 {
			ref = Ref{Deployment, pod.Namespace, ref.Name[:i]} // the ReplicaSet was not read
		}
		x.podsOf[ref] = append(x.podsOf[ref], pod)
	}
}

func newWorkload(kind Kind, o metav1.ObjectMeta, wanted int32, spec *corev1.PodSpec) *workload {
	return &workload{
		ref: Ref{kind, o.Namespace, o.Name}, wanted: wanted, spec: spec, labels: o.Labels,
		since: o.CreationTimestamp.Time,
	}
}

func (c *Cluster) deployments() (all []*workload) {
	for _, o := range c.Deployments {
		w := newWorkload(Deployment, o.ObjectMeta, derefOr(o.Spec.Replicas, 1), &o.Spec.Template.Spec)
		for _, condition := range o.Status.Conditions {
			if condition.Type == "ReplicaFailure" && condition.Status == corev1.ConditionTrue {
				w.failed = condition.Message
			}
		}
		all = append(all, w)
	}
	return all
}

func (c *Cluster) statefulSets() (all []*workload) {
	for _, o := range c.StatefulSets {
		w := newWorkload(StatefulSet, o.ObjectMeta, derefOr(o.Spec.Replicas, 1), &o.Spec.Template.Spec)
		w.set = &statefulSet{
			inOrder: o.Spec.PodManagementPolicy != "Parallel", templates: o.Spec.VolumeClaimTemplates,
		}
		if o.Spec.Ordinals != nil {
			w.set.first = o.Spec.Ordinals.Start
		}
		all = append(all, w)
	}
	return all
}

func (c *Cluster) jobs() (all []*workload) {
	for _, o := range c.Jobs {
		w := newWorkload(Job, o.ObjectMeta, derefOr(o.Spec.Parallelism, 1), &o.Spec.Template.Spec)
		if o.Spec.Completions != nil {
			w.wanted = min(w.wanted, max(0, *o.Spec.Completions-o.Status.Succeeded))
		}
		if deref(o.Spec.Suspend) {
			w.wanted = 0
		}
		for _, condition := range o.Status.Conditions {
			if condition.Status != corev1.ConditionTrue {
				continue
			}
			switch condition.Type {
			case "Failed":
				w.ended, w.failed = true, condition.Reason+": "+condition.Message
			case "Complete":
				w.ended = true
			default:
			}
		}
		all = append(all, w)
	}
	return all
}

// workloadOf returns the workload or the ReplicaSet of a Deployment; nil for none.
func (c *Cluster) workloadOf(ref Ref) *workload {
	if w := c.index.workloads[ref]; w != nil {
		return w
	}
	return c.index.revisions[ref]
}

// explainWorkload says why a workload has no pod that is ready, and of a DaemonSet which pod is
// not. This is what others wait for; [Cluster.explainShortage] is about each pod.
func (c *Cluster) explainWorkload(w *workload) Report {
	pods := slices.Clone(c.index.podsOf[w.ref])
	ready := slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !isPodReady(pod) })
	report := Report{
		Object:  w.ref,
		Summary: fmt.Sprintf("pods: %d wanted, %d existing, %d ready", w.wanted, len(pods), len(ready)),
		Next:    "its pods are ready",
	}
	f := Finding{Object: w.ref, Cause: w.ref, Actor: Administrator}
	switch {
	case w.ended:
		report.Summary, report.Findings = "the job has ended", jobFailed(w, f)
		report.Next = "its pods have done their work; claims that they name stay in use until they are deleted"
	case c.lacks(Pod):
	case w.wanted == 0 && w.ref.Kind == DaemonSet:
		f.Reason, f.WaitsFor = verdict.WorkloadPodsMissing, "a node that its node selector and tolerations allow: "+
			"there is none"
		f.Evidence = []Evidence{{
			w.ref, "spec.template.spec.nodeSelector", labels.FormatLabels(w.spec.NodeSelector), "labels of a node",
		}}
		f.Fix = []Step{{
			Text: "Correct the node selector of the DaemonSet, or label the nodes", Command: w.describe(),
		}}
		report.Findings = []Finding{f}
	case w.wanted == 0:
		report.Findings = []Finding{scaledDown(w, f)}
	case len(pods) == 0:
		report.Findings = c.missingPods(w)
	case len(ready) == 0 || w.ref.Kind == DaemonSet && len(ready) < len(pods):
		report.Findings = []Finding{unreadyPod(w, newestUnready(pods))}
	}
	return c.finish(report, Pod, w.ref.Kind)
}

func newestUnready(pods []*corev1.Pod) *corev1.Pod {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return pods[slices.IndexFunc(pods, func(pod *corev1.Pod) bool { return !isPodReady(pod) })]
}

func scaledDown(w *workload, f Finding) Finding {
	f.Reason, f.WaitsFor = verdict.WorkloadScaledDown, "replicas: it is scaled to 0"
	f.Evidence = []Evidence{{w.ref, "spec.replicas", "0", "1 or more"}}
	f.Fix = []Step{{
		Text: "Scale it up again",
		Command: shell.Command("kubectl scale %s %s --replicas=1", w.ref.Kind.Short(), w.ref.Name).In(
			w.ref.Namespace,
		),
	}}
	if w.ref.Kind == Job {
		f.WaitsFor = "a user who resumes it: it is suspended, or all its pods have done their work"
		f.Evidence = []Evidence{{w.ref, "spec.suspend", "true, or no completions are left", "absent"}}
		f.Fix = []Step{{
			Text: "Resume the Job, if it is suspended",
			Command: shell.Command(`kubectl patch job %s -p '{"spec":{"suspend":false}}'`, w.ref.Name).In(
				w.ref.Namespace,
			),
		}}
	}
	return f
}

func jobFailed(w *workload, f Finding) []Finding {
	if w.failed == "" {
		return nil
	}
	f = f.waits(
		verdict.JobFailed, User, "a user who creates it again: it has failed and does not run again: %s",
		quote(firstLine(w.failed)),
	)
	f.Since = &w.since
	f.Evidence = []Evidence{{w.ref, "status.conditions[Failed]", w.failed, "absent"}}
	f.Fix = []Step{{
		Text:    "Read why its pods ended, correct that, then delete the Job and create it again",
		Command: w.describe(),
	}}
	return []Finding{f}
}

// unreadyPod is about a pod that exists and is not ready.
func unreadyPod(w *workload, pod *corev1.Pod) Finding {
	f := Finding{Object: w.ref, Cause: podRef(pod), Actor: Administrator, Reason: verdict.WorkloadNotReady}
	f.WaitsFor = fmt.Sprintf("pod %s to be ready", pod.Name)
	f.Evidence = []Evidence{readyEvidence(pod)}
	f.Fix = []Step{{
		Text:    "Read the events and the conditions of the pod",
		Command: shell.Command("kubectl -n %s describe pod %s", pod.Namespace, pod.Name),
	}}
	return f
}

// workload shows a workload with its pods.
func (w *walk) workload(of *workload) Branch {
	b := w.branch(w.explainShortage(of), counted(int(of.wanted), "pod")+" wanted", of.since)
	for _, pod := range w.index.podsOf[of.ref] {
		if w.first(podRef(pod)) {
			b.Children = append(b.Children, w.pod(pod))
		}
	}
	return b
}
