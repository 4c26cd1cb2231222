package explain

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// expansionForbidden is about a claim that was to become larger and whose class does not allow that. A class
// that allows it by now refutes the event.
func (c *Cluster) expansionForbidden(_ string, f Finding) (Finding, bool) {
	claim := c.claimOf(f.Object)
	if claim == nil {
		return f, false
	}
	name := objects.ClaimClass(claim)
	class := c.index.classes[name]
	ref := Ref{Kind: Class, Name: name}
	if class != nil && deref(class.AllowVolumeExpansion) {
		return f, false
	}
	f = f.about(ref).waits(verdict.ExpansionForbidden, Administrator,
		"a class that allows expansion: claim %s was to become larger, and class %s does not allow it",
		claim.Name, name)
	if name == "" {
		f.WaitsFor = fmt.Sprintf(
			"a class that allows expansion: claim %s was to become larger, and has no class", claim.Name,
		)
	}
	field := Evidence{ref, "allowVolumeExpansion", "not true", "true"}
	f.Fix = []Step{{
		Text: "If the driver can expand volumes, allow it; the field of a class can be changed. Then repeat the " +
			"wish",
		Command: shell.Command(`kubectl patch storageclass %s -p '{"allowVolumeExpansion":true}'`, name),
		Risk:    "all claims of the class may become larger",
	}}
	if class == nil {
		f.Cause = claimRef(claim)
		field = Evidence{
			claimRef(claim), "spec.storageClassName", className(claim), "a class that exists and allows expansion",
		}
		f.Fix = []Step{{
			Text: "A volume that is made by hand cannot be expanded through its claim. Expand it on the backend, or " +
				"copy the data to a claim with a class that allows expansion",
		}}
	}
	f.Evidence = append(f.Evidence, field)
	return f, true
}

// shrinkForbidden is about a claim that was to become smaller, which the API does not allow.
func (c *Cluster) shrinkForbidden(_ string, f Finding) (Finding, bool) {
	claim := c.claimOf(f.Object)
	if claim == nil {
		return f, false
	}
	has := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	f = f.waits(verdict.ShrinkForbidden, User,
		"a wish that the API accepts: claim %s was to become smaller than its %s, and no volume can",
		claim.Name, has.String())
	f.Evidence = append(f.Evidence, Evidence{
		claimRef(claim), "spec.resources.requests.storage", has.String(), "the same or more in what manages the claim",
	})
	f.Fix = []Step{
		{
			Text: fmt.Sprintf("Ask for %s or more in the object that manages the claim: the values of a chart, or the "+
				"operator's object that the event is about", has.String()),
			Command: shell.Command("kubectl -n %s get pvc %s", claim.Namespace, claim.Name),
		},
		{Text: "For a smaller volume, create another claim and copy the data"},
	}
	return f, true
}

// claimImmutable is about a change of a claim other than its size and its attributes class.
func (c *Cluster) claimImmutable(_ string, f Finding) (Finding, bool) {
	claim := c.claimOf(f.Object)
	if claim == nil {
		return f, false
	}
	f = f.waits(verdict.ClaimImmutable, User,
		"a wish that the API accepts: claim %s was to be changed in a field that is fixed from its creation on",
		claim.Name)
	f.Evidence = append(f.Evidence,
		Evidence{claimRef(claim), "spec.storageClassName", className(claim), "the same in what manages the claim"},
		Evidence{claimRef(claim), "spec.volumeName", quoted(claim.Spec.VolumeName), "the same, or absent"})
	f.Fix = []Step{
		{
			Text: "Write the class, the volume mode, the access modes and the volume of the claim as they are into " +
				"what manages it; only the size and the attributes class can change",
			Command: shell.Command("kubectl -n %s get pvc %s -o yaml", claim.Namespace, claim.Name),
		},
		{Text: "If another class is needed, create another claim and copy the data"},
	}
	return f, true
}

// templateImmutable is about a workload that was to be changed in a field that is fixed. Its claims and pods
// can stay while it is created again.
func (c *Cluster) templateImmutable(message string, f Finding) (Finding, bool) {
	w := c.index.workloads[f.Object]
	if w == nil {
		return f, false
	}
	what := map[Kind]string{
		StatefulSet: "its volumeClaimTemplates, its service name or its selector", Job: "its pod template",
	}[w.ref.Kind]
	if what == "" {
		what = "its selector"
	}
	if strings.Contains(message, "spec.selector") {
		what = "its selector"
	}
	f = f.waits(verdict.TemplateImmutable, User,
		"a wish that the API accepts: %s was to be changed in %s, which cannot be changed",
		w, what)
	f.Evidence = append(f.Evidence, Evidence{
		w.ref, "metadata.creationTimestamp", w.since.UTC().String(), "created again",
	})
	f.Fix = c.templateSteps(w, message)
	return f, true
}

// recreate is how a workload gets a field that cannot be changed.
func (c *Cluster) recreate(w *workload) []Step {
	if w.ref.Kind == Job {
		return []Step{{
			Text:    "Delete the Job, and let what manages it create it again",
			Command: shell.Command("kubectl -n %s delete job %s", w.ref.Namespace, w.ref.Name),
			Risk:    "its pods are stopped and run again from the start; its claims stay",
		}}
	}
	return []Step{{
		Text: "Delete it without its pods, and let what manages it create it again: it then takes over the pods and " +
			"the claims",
		Command: shell.Command("kubectl -n %s delete %s %s --cascade=orphan", w.ref.Namespace, w.ref.Kind.Short(),
			w.ref.Name),
		Risk: "until it is created again nothing replaces a pod that ends; no data is lost, since claims stay",
	}}
}
