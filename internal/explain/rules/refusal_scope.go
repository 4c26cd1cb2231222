package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A quota with scopes counts some pods only, or the claims of some attributes classes. Admission matches them
// as pkg/quota/v1/evaluator/core of Kubernetes does, and so do the functions here.

// scope is one condition of a quota.
type scope = corev1.ScopedResourceSelectorRequirement

// quotaUse is an object that quotas count, with what it counts.
type quotaUse struct {
	what   string // in the words of the answer, such as "its claim"
	charge map[corev1.ResourceName]int64
	isIn   func(scope) bool
}

// isCountedBy reports whether all scopes of a quota match an object.
func isCountedBy(quota *corev1.ResourceQuota, isIn func(scope) bool) bool {
	for _, name := range quota.Spec.Scopes {
		if !isIn(scope{ScopeName: name, Operator: corev1.ScopeSelectorOpExists}) {
			return false
		}
	}
	if quota.Spec.ScopeSelector == nil {
		return true
	}
	return !slices.ContainsFunc(quota.Spec.ScopeSelector.MatchExpressions, func(s scope) bool { return !isIn(s) })
}

// scopeEvidence says which objects a quota with scopes counts.
func scopeEvidence(quota *corev1.ResourceQuota) (all []Evidence) {
	ref := Ref{Quota, quota.Namespace, quota.Name}
	for _, name := range quota.Spec.Scopes {
		all = append(all, Evidence{Object: ref, Field: "spec.scopes", Value: string(name)})
	}
	if quota.Spec.ScopeSelector == nil {
		return all
	}
	for _, s := range quota.Spec.ScopeSelector.MatchExpressions {
		value := fmt.Sprint(s.ScopeName, " ", s.Operator)
		if len(s.Values) > 0 {
			value += " " + strings.Join(s.Values, ", ")
		}
		all = append(all, Evidence{Object: ref, Field: "spec.scopeSelector", Value: value})
	}
	return all
}

// selects reports whether a scope selects one of the names, or an object without a name.
func selects(s scope, names ...string) bool {
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })
	switch s.Operator {
	case corev1.ScopeSelectorOpExists:
		return len(names) > 0
	case corev1.ScopeSelectorOpDoesNotExist:
		return len(names) == 0
	case corev1.ScopeSelectorOpIn:
		return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(s.Values, name) })
	case corev1.ScopeSelectorOpNotIn:
		return len(names) == 0 ||
			slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(s.Values, name) })
	}
	return false
}

// claimScopes matches the scopes of quotas for a claim with the attributes classes.
func claimScopes(attributesClasses ...string) func(scope) bool {
	return func(s scope) bool {
		return s.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass && selects(s, attributesClasses...)
	}
}

// attributesClassesOf returns the attributes classes for which a claim counts: it is changed from
// one to another.
func attributesClassesOf(claim *corev1.PersistentVolumeClaim) []string {
	names := []string{
		deref(claim.Spec.VolumeAttributesClassName), deref(claim.Status.CurrentVolumeAttributesClassName),
	}
	if status := claim.Status.ModifyVolumeStatus; status != nil {
		names = append(names, status.TargetVolumeAttributesClassName)
	}
	return names
}

// podScopes matches the scopes of quotas for a pod of a template in a namespace.
func (c *Cluster) podScopes(namespace string, spec *corev1.PodSpec) func(scope) bool {
	return func(s scope) bool {
		hasDeadline := spec.ActiveDeadlineSeconds != nil && *spec.ActiveDeadlineSeconds >= 0
		switch s.ScopeName {
		case corev1.ResourceQuotaScopeTerminating:
			return hasDeadline
		case corev1.ResourceQuotaScopeNotTerminating:
			return !hasDeadline
		case corev1.ResourceQuotaScopeBestEffort:
			return c.isBestEffort(namespace, spec)
		case corev1.ResourceQuotaScopeNotBestEffort:
			return !c.isBestEffort(namespace, spec)
		case corev1.ResourceQuotaScopePriorityClass:
			return selects(s, spec.PriorityClassName)
		case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			return slices.ContainsFunc(affinityTerms(spec), func(term corev1.PodAffinityTerm) bool {
				return len(term.Namespaces) > 0 || term.NamespaceSelector != nil
			})
		default:
			return false
		}
	}
}

// isBestEffort reports whether a pod requests neither CPU nor memory, of which a LimitRange may
// have defaults.
func (c *Cluster) isBestEffort(namespace string, spec *corev1.PodSpec) bool {
	all := []corev1.ResourceRequirements{deref(spec.Resources)}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			all = append(all, containers[i].Resources)
		}
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if c.hasDefault(namespace, "requests."+name, name) {
			return false
		}
		for _, resources := range all {
			if amountOf(name, resources.Requests[name]) > 0 || amountOf(name, resources.Limits[name]) > 0 {
				return false
			}
		}
	}
	return true
}

// affinityTerms are all terms of a pod about other pods.
func affinityTerms(spec *corev1.PodSpec) (terms []corev1.PodAffinityTerm) {
	if spec.Affinity == nil {
		return nil
	}
	var weighted []corev1.WeightedPodAffinityTerm
	if of := spec.Affinity.PodAffinity; of != nil {
		terms = append(terms, of.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, of.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if of := spec.Affinity.PodAntiAffinity; of != nil {
		terms = append(terms, of.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted, of.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for _, term := range weighted {
		terms = append(terms, term.PodAffinityTerm)
	}
	return terms
}
