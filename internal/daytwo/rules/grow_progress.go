package daytwo

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/size"
)

// Growth is how far the expansion of a claim is.
type Growth struct {
	VolumeDone bool   // the volume has the size
	Done       bool   // so has the filesystem on it, or no pod uses it
	Text       string // what it waits for, or what is left to a pod
	// Failed says that the driver has refused the size for good.
	Failed bool
}

// GrowthOf says how far a claim is. The volume has the size once the PersistentVolume says so. The
// filesystem on it is expanded on the node of a pod, and without a pod when the next one uses it.
func GrowthOf(
	claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, to resource.Quantity, inUse bool,
) Growth {
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	of := conditionText(claim)
	if size.Compare(capacity, to) >= 0 {
		return Growth{VolumeDone: true, Done: true, Text: "has " + capacity.String()}
	}
	status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	have := volume.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case size.Compare(have, to) >= 0 && !inUse:
		text := "the volume has " + have.String() + "; its filesystem grows when a pod uses it"
		return Growth{VolumeDone: true, Done: true, Text: text}
	case size.Compare(have, to) >= 0 && status == corev1.PersistentVolumeClaimNodeResizeInfeasible:
		text := "the volume has " + have.String() + "; the node cannot expand its filesystem"
		return Growth{VolumeDone: true, Text: text + of}
	case size.Compare(have, to) >= 0:
		text := "the volume has " + have.String() + "; waits for the node to expand the filesystem"
		return Growth{VolumeDone: true, Text: text + of}
	case status == corev1.PersistentVolumeClaimControllerResizeInfeasible:
		return Growth{Failed: true, Text: "the driver refused the size for good" + of}
	}
	return Growth{Text: "waits for the driver to expand the volume" + of}
}

// conditionText returns the message of the last condition about an expansion.
func conditionText(claim *corev1.PersistentVolumeClaim) string {
	for _, c := range slices.Backward(claim.Status.Conditions) {
		switch c.Type {
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			if c.Message != "" {
				return ": " + c.Message
			}
		default:
		}
	}
	return ""
}

// Print prints the plan: what is done in which order, or why nothing is done.
func (p GrowPlan) Print(page *Page) {
	page.Line(
		Plain, "StatefulSet %s/%s, template %s: %s -> %s", p.Namespace, p.Set, orDash(p.Template), orDash(p.From),
		p.Size,
	)
	if len(p.Claims) > 0 {
		t := &table{head: []string{"CLAIM", ">FROM", ">TO", "CLASS", "DRIVER", "POD"}}
		for _, c := range p.Claims {
			to := c.To
			if to == "" {
				to = "large enough"
			}
			t.add(Plain, c.Name, c.From, to, orDash(c.Class), orDash(c.Driver), orDash(c.Pod))
		}
		t.print(page)
	}
	for _, text := range p.Refused {
		page.Line(Critical, "Refused: %s", text)
	}
	for _, text := range p.Notes {
		page.Line(Warning, "Note: %s", text)
	}
	if len(p.Refused) > 0 {
		return
	}
	if p.IsDone() {
		page.Line(Good, "Nothing to do: the template and all claims have the size.")
		return
	}
	for i, step := range p.Steps() {
		page.Line(Plain, "%d. %s", i+1, step)
	}
}

// Steps returns what is done, in order.
func (p GrowPlan) Steps() (steps []string) {
	var larger []string
	for _, c := range p.Claims {
		if c.To != "" {
			larger = append(larger, c.Name)
		}
	}
	if len(larger) > 0 {
		steps = append(steps,
			fmt.Sprintf("ask for %s for %s: %s", p.Size, plural(len(larger), "claim"), strings.Join(larger, ", ")),
			"wait until each has it; if one is refused, stop here: the StatefulSet is as before")
	}
	if p.Replace {
		steps = append(steps,
			fmt.Sprintf("keep the StatefulSet with its new template in Secret %s/%s, from which a repeated command "+
				"goes on",
				p.Namespace, SavedName(p.Set)),
			"delete the StatefulSet, not its pods (--cascade=orphan), and create it with the new template",
			"wait until it controls its pods again, then delete the Secret")
	}
	return steps
}

// SavedName returns the name of the Secret that keeps a StatefulSet while it is replaced.
func SavedName(set string) string {
	const most, prefix = 253, "purser-grow-"
	return prefix + set[:min(len(set), most-len(prefix))]
}

// HasTemplates reports whether a StatefulSet has the templates of another one, by name and size.
func HasTemplates(have, want *appsv1.StatefulSet) bool {
	return slices.EqualFunc(have.Spec.VolumeClaimTemplates, want.Spec.VolumeClaimTemplates,
		func(a, b corev1.PersistentVolumeClaim) bool {
			return a.Name == b.Name && size.Compare(a.Spec.Resources.Requests[corev1.ResourceStorage],
				b.Spec.Resources.Requests[corev1.ResourceStorage]) == 0
		})
}
