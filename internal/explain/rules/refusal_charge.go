package explain

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// classOfSpec returns the class that a claim with the spec gets.
func (c *Cluster) classOfSpec(spec *corev1.PersistentVolumeClaimSpec) string {
	if spec.StorageClassName != nil {
		return *spec.StorageClassName
	}
	if class := binding.DefaultClass(c.Classes); class != nil {
		return class.Name
	}
	return ""
}

// chargeOf returns what a claim counts in a quota, by resource.
func (c *Cluster) chargeOf(spec *corev1.PersistentVolumeClaimSpec) map[corev1.ResourceName]int64 {
	bytes := size.Clamp(spec.Resources.Requests[corev1.ResourceStorage])
	charge := map[corev1.ResourceName]int64{
		"requests.storage": bytes, "persistentvolumeclaims": 1, "count/persistentvolumeclaims": 1,
	}
	if class := c.classOfSpec(spec); class != "" {
		const of = ".storageclass.storage.k8s.io/"
		charge[corev1.ResourceName(class+of+"requests.storage")] = bytes
		charge[corev1.ResourceName(class+of+"persistentvolumeclaims")] = 1
	}
	return charge
}

// computed are the resources of containers that quotas count.
var computed = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}

// chargeOfPod returns what a pod of a template counts in a quota.
func chargeOfPod(spec *corev1.PodSpec) map[corev1.ResourceName]int64 {
	charge := map[corev1.ResourceName]int64{"pods": 1, "count/pods": 1}
	add := func(key corev1.ResourceName, amount int64) { charge[key] = size.Sum(charge[key], amount) }
	for i := range spec.Containers {
		resources := &spec.Containers[i].Resources
		for _, name := range computed {
			request, limit := amountOf(name, resources.Requests[name]), amountOf(name, resources.Limits[name])
			if _, has := resources.Requests[name]; !has {
				request = limit // the API server sets it so
			}
			add(name, request)
			add("requests."+name, request)
			add("limits."+name, limit)
		}
	}
	return charge
}

// unspecified finds a quota that counts a resource of containers of which one of the template has none. The
// API server refuses such a pod, unless a LimitRange has a default.
func (c *Cluster) unspecified(spec *corev1.PodSpec, f Finding) (Finding, bool) {
	if c.lacks(LimitRange) {
		return f, false
	}
	isIn := c.podScopes(f.Object.Namespace, spec)
	for _, quota := range c.Quotas {
		if quota.Namespace != f.Object.Namespace || !isCountedBy(quota, isIn) {
			continue
		}
		for _, name := range computed {
			for _, key := range []corev1.ResourceName{"requests." + name, "limits." + name} {
				_, counted := hardOf(quota)[key]
				container := lacking(spec, key, name)
				if !counted || container == "" || c.hasDefault(quota.Namespace, key, name) {
					continue
				}
				f.Evidence = append(f.Evidence, Evidence{
					f.Object, "spec.template.spec.containers[" + container + "].resources", "no " + string(key),
					"a value: the quota counts it",
				})
				return unspecifiedFinding(f, quota.Name, fmt.Sprintf("%s for: %s", key, container)), true
			}
		}
	}
	return f, false
}

// lacking returns a container without the request or the limit; empty if all have it.
func lacking(spec *corev1.PodSpec, key, name corev1.ResourceName) string {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			_, limited := list[i].Resources.Limits[name]
			_, requested := list[i].Resources.Requests[name]
			if !limited && (key == "limits."+name || !requested) {
				return list[i].Name
			}
		}
	}
	return ""
}

func (c *Cluster) hasDefault(namespace string, key, name corev1.ResourceName) bool {
	for _, limits := range c.LimitRanges {
		if limits.Namespace != namespace {
			continue
		}
		for _, item := range limits.Spec.Limits {
			_, limit := item.Default[name]
			_, request := item.DefaultRequest[name]
			if item.Type == corev1.LimitTypeContainer && (limit || request && key == "requests."+name) {
				return true
			}
		}
	}
	return false
}

// quotaUnspecified is about "failed quota: NAME: must specify limits.cpu for: a,b".
func (c *Cluster) quotaUnspecified(message string, f Finding) (Finding, bool) {
	_, rest, _ := strings.Cut(message, "failed quota: ")
	name, what, _ := strings.Cut(rest, ": must specify ")
	if !c.lacks(Quota) && !c.NoneInDump[Quota] && c.quotaOf(f.Object.Namespace, name) == nil {
		return f, false
	}
	return unspecifiedFinding(f, name, firstLine(what)), true
}

func unspecifiedFinding(f Finding, quota, what string) Finding {
	f = f.about(Ref{Quota, f.Object.Namespace, quota}).waits(verdict.QuotaUnspecified, User,
		"requests and limits that ResourceQuota %q counts: it refuses pods without %s", quota, what)
	f.Fix = []Step{
		{
			Text:    "Give each container of the template what is missing, init containers and sidecars too",
			Command: shell.Command("kubectl -n %s describe resourcequota %s", f.Object.Namespace, quota),
		},
		{Text: "Or let a LimitRange of the namespace have defaults for containers"},
	}
	return f
}

// limitInMessage reads "maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi".
var limitInMessage = regexp.MustCompile(`(maximum|minimum) (\S+) usage per (\w+) is ([^\s,]+)`)

// limitExceeded is about a refusal by a LimitRange that has the limit still.
func (c *Cluster) limitExceeded(message string, f Finding) (Finding, bool) {
	found := limitInMessage.FindStringSubmatch(message)
	if found == nil {
		return f, false
	}
	isMax := found[1] == "maximum"
	name, of := corev1.ResourceName(found[2]), corev1.LimitType(found[3])
	if c.lacks(LimitRange) || c.NoneInDump[LimitRange] {
		f.Cause = Ref{Kind: Namespace, Name: f.Object.Namespace}
		return limitFinding(f, of, found[0]), true
	}
	for _, limits := range c.LimitRanges {
		for _, item := range limits.Spec.Limits {
			bound := item.Min[name]
			if isMax {
				bound = item.Max[name]
			}
			named, err := size.Parse(found[4])
			if limits.Namespace == f.Object.Namespace && item.Type == of && err == nil &&
				size.Compare(bound, named) == 0 {
				f.Cause = Ref{LimitRange, limits.Namespace, limits.Name}
				return limitFinding(f, of, found[0]), true
			}
		}
	}
	return f, false
}

func limitFinding(f Finding, of corev1.LimitType, bound string) Finding {
	cause := f.Cause
	f = f.waits(verdict.LimitRangeExceeded, User, "a request within the limits of namespace %q: the %s",
		f.Object.Namespace, bound)
	f.Cause = cause
	f.Evidence = append(f.Evidence, Evidence{cause, "limits for a " + string(of), bound, "a request within it"})
	f.Fix = []Step{{
		Text: "Ask for an amount within the limit. What a workload's template fixes needs the workload created " +
			"again",
		Command: shell.Command("kubectl -n %s describe limitrange", f.Object.Namespace),
	}, {Text: "Or let the administrator of the namespace change the limit"}}
	return f
}

// limitRefuses recomputes whether a LimitRange of the namespace allows a claim.
func (c *Cluster) limitRefuses(spec *corev1.PersistentVolumeClaimSpec, f Finding) (Finding, bool) {
	request := spec.Resources.Requests[corev1.ResourceStorage]
	for _, limits := range c.LimitRanges {
		for _, item := range limits.Spec.Limits {
			if limits.Namespace != f.Object.Namespace || item.Type != corev1.LimitTypePersistentVolumeClaim {
				continue
			}
			most, hasMost := item.Max[corev1.ResourceStorage]
			least, hasLeast := item.Min[corev1.ResourceStorage]
			var bound string
			switch {
			case hasMost && size.Compare(request, most) > 0:
				bound = fmt.Sprintf(
					"maximum storage per claim is %s, and %s is asked for", most.String(), request.String(),
				)
			case hasLeast && size.Compare(request, least) < 0:
				bound = fmt.Sprintf(
					"minimum storage per claim is %s, and %s is asked for", least.String(), request.String(),
				)
			default:
				continue
			}
			f.Cause = Ref{LimitRange, limits.Namespace, limits.Name}
			return limitFinding(f, item.Type, bound), true
		}
	}
	return f, false
}

// claimRefused recomputes why a claim of a template is not admitted.
func (c *Cluster) claimRefused(spec *corev1.PersistentVolumeClaimSpec, f Finding) (Finding, bool) {
	if found, is := c.limitRefuses(spec, f); is {
		return found, true
	}
	return c.quotaRefuses(quotaUse{
		"its claim", c.chargeOf(spec), claimScopes(deref(spec.VolumeAttributesClassName)),
	}, f)
}

// podRefused recomputes why a pod of a template is not admitted.
func (c *Cluster) podRefused(spec *corev1.PodSpec, f Finding) (Finding, bool) {
	if found, is := c.unspecified(spec, f); is {
		return found, true
	}
	charge := chargeOfPod(spec)
	maps.DeleteFunc(charge, func(_ corev1.ResourceName, amount int64) bool { return amount == 0 })
	return c.quotaRefuses(quotaUse{"its pod", charge, c.podScopes(f.Object.Namespace, spec)}, f)
}
