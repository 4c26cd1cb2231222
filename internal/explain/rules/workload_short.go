package explain

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/verdict"
)

// explainShortage is about each pod and claim that a workload is short of. Pods that wait for the same are
// given once.
func (c *Cluster) explainShortage(w *workload) Report {
	report := c.explainWorkload(w)
	if w.ended || w.wanted == 0 || c.lacks(Pod) {
		return report
	}
	findings := c.missingPods(w)
	for _, pod := range c.index.podsOf[w.ref] {
		if !isPodReady(pod) && !isFinished(pod) && pod.DeletionTimestamp == nil {
			findings = append(findings, unreadyPod(w, pod))
		}
	}
	if w.ref.Kind == Job && len(findings) == 0 {
		report.Findings = nil // the pods of a Job need not be ready
	}
	if len(findings) > 0 {
		report.Findings = findings
	}
	report.Unread = nil
	return c.finish(report, Pod, w.ref.Kind)
}

// missingPods is about the pods of a workload that do not exist, and the claims that are created before them.
func (c *Cluster) missingPods(w *workload) []Finding {
	if w.set != nil {
		return c.missingOrdinals(w)
	}
	short := int(w.wanted) - len(slices.DeleteFunc(slices.Clone(c.index.podsOf[w.ref]), isFinished))
	if short <= 0 {
		return nil
	}
	f := Finding{Object: w.ref, Cause: w.ref, Actor: Administrator}
	what := fmt.Sprintf("%s to be created: there are %d of %d", counted(short, "pod"), int(w.wanted)-short, w.wanted)
	f.Evidence = []Evidence{{w.ref, "spec.replicas", fmt.Sprint(w.wanted), "as many pods"}}
	creators := append([]Ref{w.ref}, c.revisionsOf(w)...)
	if found, by, is := c.creationRefused(w, creators, f); is {
		found.Chain = []Link{{w.ref, what}}
		if by != w.ref {
			found.Chain = []Link{{w.ref, what}, {by, found.WaitsFor}}
			if found.Cause == w.ref {
				found.Cause = by
			}
		}
		if found.Chain[len(found.Chain)-1].Object == w.ref {
			found.Chain = nil
		}
		found.Object = w.ref
		return []Finding{found}
	}
	return []Finding{podsMissing(w, what, f)}
}

// podsMissing is about pods that do not exist, where nothing but a condition says why.
func podsMissing(w *workload, what string, f Finding) Finding {
	f.Reason, f.WaitsFor = verdict.WorkloadPodsMissing, what
	f.Fix = []Step{{
		Text:    "Read why its pods cannot be created: its events, and those of its ReplicaSet",
		Command: w.describe(),
	}}
	if w.failed != "" {
		f.WaitsFor = "its pods to be accepted by the API server, which refuses them: " + quote(firstLine(w.failed))
		f.Evidence = append(f.Evidence, Evidence{
			w.ref, "status.conditions[ReplicaFailure].message", w.failed, "absent",
		})
	}
	return f
}

// revisionsOf returns the ReplicaSets of a Deployment.
func (c *Cluster) revisionsOf(w *workload) (all []Ref) {
	for ref, revision := range c.index.revisions {
		if revision.owner == w.ref && revision.wanted > 0 {
			all = append(all, ref)
		}
	}
	slices.SortFunc(all, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// creationRefused explains why pods cannot be created: by the newest event of what creates them, by its
// condition, and by what the API server would refuse now. by is the object that shows it.
func (c *Cluster) creationRefused(w *workload, creators []Ref, f Finding) (_ Finding, by Ref, ok bool) {
	for _, ref := range creators {
		event := c.lastEvent(ref, "FailedCreate")
		if event == nil {
			continue
		}
		f.Object = w.ref
		if found, is := c.refusedBy(event, f); is {
			return found, ref, true
		}
	}
	for _, ref := range creators {
		failed := c.workloadOf(ref).failed
		if failed == "" || !isClassified(failed) {
			continue
		}
		shown := f
		shown.Evidence = append(slices.Clone(f.Evidence), Evidence{
			ref, "status.conditions[ReplicaFailure].message", failed, "absent",
		})
		if found, is := c.refused(failed, shown); is {
			return found, ref, true
		}
	}
	found, is := c.podRefused(w.spec, f)
	return found, w.ref, is
}

// isClassified reports whether a refusal says more than that the request was refused.
func isClassified(message string) bool {
	return slices.ContainsFunc(refusalRules, func(r refusalRule) bool { return strings.Contains(message, r.text) })
}

// mostOrdinals bounds how many pods of a StatefulSet are looked at.
const mostOrdinals = 100

// missingOrdinals is about the pods of a StatefulSet that do not exist. Where they are created in order, the
// first that is missing or not ready is what the others wait for.
func (c *Cluster) missingOrdinals(w *workload) (findings []Finding) {
	for i := range min(w.wanted, mostOrdinals) {
		ref := Ref{Pod, w.ref.Namespace, w.ref.Name + "-" + strconv.Itoa(int(w.set.first+i))}
		pod := c.index.pods[ref.key()]
		switch {
		case pod == nil:
			findings = append(findings, c.missingOrdinal(w, ref))
		case isPodReady(pod):
			continue
		}
		if w.set.inOrder {
			return findings
		}
	}
	return findings
}

// missingOrdinal is about one pod of a StatefulSet that does not exist. Its claims are created first.
func (c *Cluster) missingOrdinal(w *workload, pod Ref) Finding {
	f := Finding{Object: w.ref, Cause: w.ref, Actor: Administrator}
	f.Evidence = []Evidence{{pod, "metadata.name", "there is no such pod", pod.Name}}
	chain := []Link{{w.ref, fmt.Sprintf("pod %s, which does not exist", pod.Name)}}
	for i := range w.set.templates {
		template := &w.set.templates[i]
		ref := claimOfSet(w, template.Name, pod.Name)
		claim := c.index.claims[ref.key()]
		switch {
		case c.lacks(Claim):
		case claim == nil:
			f.Evidence = append(f.Evidence, Evidence{ref, "metadata.name", "there is no such claim", ref.Name})
			chain = append(chain, Link{pod, fmt.Sprintf("claim %s, which does not exist", ref.Name)})
			if event := c.lastRefusal(ref); event != nil {
				if found, is := c.refusedBy(event, f); is {
					return chained(found, append(chain, Link{ref, found.WaitsFor}))
				}
			}
			if found, is := c.claimRefused(&template.Spec, f); is {
				return chained(found, append(chain, Link{ref, found.WaitsFor}))
			}
			return c.notCreated(w, ref, f, chain)
		case claim.DeletionTimestamp != nil:
			f = f.about(ref).waits(verdict.ClaimStillUsed, Itself, "claim %s to go, which is being deleted", ref.Name)
			return chained(f, append(chain, Link{pod, f.WaitsFor}))
		}
	}
	if event := c.lastRefusal(pod); event != nil {
		if found, is := c.refusedBy(event, f); is {
			return chained(found, append(chain, Link{pod, found.WaitsFor}))
		}
	}
	if found, is := c.podRefused(w.spec, f); is {
		return chained(found, append(chain, Link{pod, found.WaitsFor}))
	}
	return c.notCreated(w, pod, f, chain)
}

// notCreated is about an object that the StatefulSet controller has not created, which no event or field
// explains.
func (c *Cluster) notCreated(w *workload, ref Ref, f Finding, chain []Link) Finding {
	if state, _ := c.healthOf(controllerManager); state == expired {
		f = f.about(Ref{Kind: Lease, Namespace: "kube-system", Name: controllerManager.lease}).waits(
			verdict.BinderSilent, Administrator, "kube-controller-manager, which shows no sign of life")
		f.Evidence = append(f.Evidence, c.leaseEvidence(controllerManager)...)
		f.Fix = []Step{{
			Text: "See whether kube-controller-manager runs", Command: "kubectl -n kube-system get lease,pods",
		}}
		return chained(c.byRunner(controllerManager, f), append(chain, Link{ref, f.WaitsFor}))
	}
	what := fmt.Sprintf("pod %s, which does not exist", ref.Name)
	if ref.Kind == Claim {
		what = fmt.Sprintf("claim %s, which does not exist", ref.Name)
	}
	f = podsMissing(w, what, f)
	return chained(f, chain)
}

// chained gives a finding its chain, unless that has one link only.
func chained(f Finding, chain []Link) Finding {
	f.Object = chain[0].Object
	if len(chain) > 1 {
		f.Chain = chain
	}
	return f
}

// claimOfSet returns the claim of a template for a pod of a StatefulSet.
func claimOfSet(w *workload, template, pod string) Ref {
	return Ref{Claim, w.ref.Namespace, template + "-" + pod}
}

// setOf returns the StatefulSet of a claim by its name, and the template that the claim is made of.
func (c *Cluster) setOf(claim types.NamespacedName) (*workload, *corev1.PersistentVolumeClaim) {
	for ref, w := range c.index.workloads {
		if w.set == nil || ref.Namespace != claim.Namespace {
			continue
		}
		for i := range w.set.templates {
			ordinal, is := strings.CutPrefix(claim.Name, w.set.templates[i].Name+"-"+ref.Name+"-")
			if _, err := strconv.Atoi(ordinal); is && err == nil {
				return w, &w.set.templates[i]
			}
		}
	}
	return nil, nil
}

// refusedReports are about workloads that cannot create a pod or a claim because the API server refuses it.
func (c *Cluster) refusedReports() (all []Report) {
	for _, w := range c.index.workloads {
		if w.ended || w.wanted == 0 || c.lacks(Pod) {
			continue
		}
		report := Report{
			Object: w.ref, Summary: "it is short of pods",
			Findings: slices.DeleteFunc(c.missingPods(w), func(f Finding) bool { return !refusals[f.Reason] }),
		}
		if len(report.Findings) > 0 {
			all = append(all, c.finish(report, Pod, w.ref.Kind))
		}
	}
	slices.SortFunc(all, func(a, b Report) int { return strings.Compare(a.Object.String(), b.Object.String()) })
	return all
}

// refusals are the reasons for which an object cannot be created.
var refusals = map[verdict.Reason]bool{
	verdict.QuotaExceeded: true, verdict.QuotaUnspecified: true, verdict.LimitRangeExceeded: true,
	verdict.WebhookDenied: true, verdict.WebhookUnreachable: true, verdict.PodSecurityRefused: true,
	verdict.RequestRefused: true,
}
