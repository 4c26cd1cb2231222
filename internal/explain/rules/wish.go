package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// lastWish returns the last wish about an object that is well and that the API server refused; nil for none.
// A template of a StatefulSet that its claims do not have is one, whether or not an event tells of it.
func (c *Cluster) lastWish(ref Ref) *Finding {
	if found := c.templateWish(ref); found != nil {
		return found
	}
	for _, event := range c.index.refusals[ref] {
		if EventTime(event).After(c.Now.Add(clockSkew)) || c.contradictedWish(ref, event) {
			continue
		}
		if found, ok := c.refusedBy(event, Finding{Object: ref, Cause: ref}); ok {
			return &found
		}
	}
	return nil
}

// contradictedWish reports whether the event is about an earlier object of the name.
func (c *Cluster) contradictedWish(ref Ref, event *corev1.Event) bool {
	if w := c.workloadOf(ref); w != nil {
		return isBefore(event, metav1.NewTime(w.since))
	}
	object := c.metaOf(ref)
	return object != nil && isBefore(event, object.GetCreationTimestamp())
}

// templateWish is about a StatefulSet whose template asks for more than its claims have, or for another
// class, and about such a claim. Changing the template of a StatefulSet that was created again changes no
// claim.
func (c *Cluster) templateWish(ref Ref) *Finding {
	switch ref.Kind {
	case StatefulSet:
		w := c.index.workloads[ref]
		for i := range min(w.wanted, mostOrdinals) {
			for t := range w.set.templates {
				template := &w.set.templates[t]
				name := fmt.Sprintf("%s-%d", w.ref.Name, w.set.first+i)
				claim := c.index.claims[claimOfSet(w, template.Name, name).key()]
				if found := c.templateDiffers(ref, w, template, claim); found != nil {
					return found
				}
			}
		}
	case Claim:
		if w, template := c.setOf(ref.key()); w != nil {
			return c.templateDiffers(ref, w, template, c.index.claims[ref.key()])
		}
	default:
	}
	return nil
}

func (c *Cluster) templateDiffers(
	of Ref, w *workload, template, claim *corev1.PersistentVolumeClaim,
) *Finding {
	if claim == nil {
		return nil
	}
	wants := template.Spec.Resources.Requests[corev1.ResourceStorage]
	has := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	class := deref(template.Spec.StorageClassName)
	isLarger := size.Compare(wants, has) > 0
	if !isLarger && (class == "" || class == deref(claim.Spec.StorageClassName)) {
		return nil
	}
	f := Finding{Object: of, Cause: claimRef(claim), Since: &w.since}
	field := "spec.volumeClaimTemplates[" + template.Name + "].spec."
	if !isLarger {
		f = f.waits(verdict.ClaimTemplateDiffers, User,
			"claims of class %q, which its template asks for: a claim that "+
				"exists keeps its class, and %s has another", class, claim.Name)
		f.Evidence = []Evidence{
			{w.ref, field + "storageClassName", class, ""},
			{claimRef(claim), "spec.storageClassName", className(claim), class},
		}
		f.Fix = []Step{{
			Text: "To move a replica to the other class, copy its data: scale down, create a claim of the class, " +
				"copy, and give the new claim the name of the old one. Claims of new replicas get the class by " +
				"themselves",
			Command: shell.Command("kubectl -n %s get pvc", claim.Namespace),
		}}
		return &f
	}
	f = f.waits(verdict.ClaimTemplateDiffers, User, "claims of %s, which its template asks for: a change of the "+
		"template changes no claim that exists, and %s has %s", wants.String(), claim.Name, has.String())
	f.Evidence = []Evidence{
		{w.ref, field + "resources.requests.storage", wants.String(), ""},
		{claimRef(claim), "spec.resources.requests.storage", has.String(), wants.String()},
	}
	f.Fix = []Step{{
		Text: "Expand each claim of the StatefulSet by hand",
		Command: shell.Command(`kubectl -n %s patch pvc %s -p {"spec":{"resources":{"requests":{"storage":"%s"}}}}`,
			claim.Namespace, claim.Name, wants.String()),
		Risk: "a volume cannot become smaller again",
	}}
	if found, forbidden := c.expansionForbidden("", Finding{Object: claimRef(claim)}); forbidden {
		f.Evidence = append(f.Evidence, found.Evidence...)
		then := Step{Text: "Then expand each claim of the StatefulSet by hand", Risk: f.Fix[0].Risk}
		f.Fix = slices.Concat(found.Fix, []Step{then})
	}
	return &f
}

// templateSteps are what makes the claims of a StatefulSet larger, whose template cannot be changed.
func (c *Cluster) templateSteps(w *workload, message string) []Step {
	if w.set == nil || len(w.set.templates) == 0 || strings.Contains(message, "spec.selector") {
		return c.recreate(w)
	}
	template := &w.set.templates[0]
	has := template.Spec.Resources.Requests[corev1.ResourceStorage]
	claim := claimOfSet(w, template.Name, fmt.Sprintf("%s-%d", w.ref.Name, w.set.first))
	return append([]Step{{
		Text: fmt.Sprintf("If its claims were to become larger than %s: first expand each claim, such as %s, by hand",
			has.String(), claim.Name),
		Command: shell.Command("kubectl -n %s edit pvc %s", claim.Namespace, claim.Name),
	}}, c.recreate(w)...)
}
