package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

// mostNear bounds how many volumes that almost fit are named.
const mostNear = 5

// noVolumeYet is the risk of deleting a claim that was never bound.
const noVolumeYet = "none for data: the claim has no volume yet"

// near is a static volume and the fields for which the claim cannot be bound to it.
type near struct {
	pv       *corev1.PersistentVolume
	evidence []Evidence
}

// nearMisses compares the claim with each volume that no other claim has; those that a claim of the
// same name had first, then those with the fewest differences.
func (c *Cluster) nearMisses(claim *corev1.PersistentVolumeClaim) []near {
	var all []near
	for _, pv := range c.Volumes {
		taken := pv.Spec.ClaimRef != nil && (pv.Status.Phase == corev1.VolumeBound || isProvisioned(pv))
		if taken && !hadClaim(pv, claim) {
			continue
		}
		if differences := compare(pv, claim); len(differences) > 0 {
			all = append(all, near{pv, differences})
		}
	}
	distance := func(n near) int {
		if hadClaim(n.pv, claim) {
			return 0
		}
		return len(n.evidence)
	}
	slices.SortStableFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), cmp.Compare(a.pv.Name, b.pv.Name))
	})
	return all[:min(len(all), mostNear)]
}

// hadClaim reports whether a claim of the same namespace and name had the volume before.
func hadClaim(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID != "" &&
		ref.UID != claim.UID
}

// compare shows each field for which the binder does not choose the volume for the claim.
func compare(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (all []Evidence) {
	for _, field := range binding.Misfits(pv, claim) {
		has, wanted := sides(field, pv, claim)
		all = append(all, Evidence{volumeRef(pv), field, quoted(has), wanted})
	}
	return all
}

// sides returns what a field of the volume has and what the claim asks for.
func sides(field string, pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (has, wanted string) {
	switch field {
	case "spec.claimRef":
		return describeClaimRef(pv), fmt.Sprintf("absent, or %s/%s with uid %s", claim.Namespace, claim.Name, claim.UID)
	case "metadata.deletionTimestamp":
		return pv.DeletionTimestamp.String(), "absent"
	case "spec.storageClassName":
		return objects.VolumeClass(pv), "the claim's: " + quoted(objects.ClaimClass(claim))
	case "spec.capacity.storage":
		size, asked := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return size.String(), "at least " + asked.String()
	case "spec.volumeMode":
		return string(volumeMode(pv.Spec.VolumeMode)), "the claim's: " + string(volumeMode(claim.Spec.VolumeMode))
	case "spec.accessModes":
		return fmt.Sprint(pv.Spec.AccessModes), "also " + strings.Join(missingModes(pv, claim), ", ")
	case "metadata.labels":
		selector := metav1.FormatLabelSelector(claim.Spec.Selector)
		return labels.Set(pv.Labels).String(), "the claim's spec.selector: " + selector
	case "spec.volumeAttributesClassName":
		asked := deref(claim.Spec.VolumeAttributesClassName)
		return deref(pv.Spec.VolumeAttributesClassName), "the claim's: " + quoted(asked)
	}
	return "", ""
}

// staticOnly are the reasons of a claim that only a volume made by hand serves.
var staticOnly = []verdict.Reason{verdict.NoVolumeAndNoClass, verdict.ClassMissing, verdict.ProvisionerUnknown}

// withNear adds to what a claim without a volume waits for the volumes that almost fit: for any
// claim the one that a claim of the same name had, else only where none is provisioned, or the
// class is a default.
func (c *Cluster) withNear(claim *corev1.PersistentVolumeClaim, findings []Finding) []Finding {
	if len(findings) == 0 || claim.Spec.VolumeName != "" {
		return findings
	}
	f := &findings[0]
	isStatic := slices.Contains(staticOnly, f.Reason)
	defaults := c.defaultsOf(claim)
	var first, last []Step
	for _, miss := range c.nearMisses(claim) {
		field := miss.evidence[0].Field
		isOne := len(miss.evidence) == 1 && binding.Matchable(miss.pv)
		switch {
		case hadClaim(miss.pv, claim):
			first = append(first, formerSteps(miss)...)
		case isOne && (isStatic || len(defaults) > 0 && f.Actor != Itself && field == "spec.storageClassName"):
			last = append(last, oneField(miss.pv, claim, field))
		case !isStatic:
			continue
		}
		f.Evidence = append(f.Evidence, miss.evidence...)
	}
	if len(defaults) > 1 && f.Actor != Itself {
		f.Evidence = append(f.Evidence, defaults...)
		last = append(last, Step{
			Text: fmt.Sprintf("%d classes are marked as the default. A claim that names no class gets the newest, "+
				"here %q; if another was meant, remove the mark from this one and create the claim again",
				len(defaults),
				objects.ClaimClass(claim)),
			Command: shell.Command(
				"kubectl annotate storageclass %s %s-", objects.ClaimClass(claim), names.AnnDefaultStorageClass,
			),
		})
	}
	f.Fix = slices.Concat(first, last, f.Fix)
	return findings
}

// defaultsOf shows the default classes, if the claim has the class that a claim without one gets.
func (c *Cluster) defaultsOf(claim *corev1.PersistentVolumeClaim) (all []Evidence) {
	winner := binding.DefaultClass(c.Classes)
	if winner == nil || winner.Name != objects.ClaimClass(claim) {
		return nil
	}
	for _, class := range c.Classes {
		if binding.IsDefault(class) {
			all = append(all, Evidence{
				Ref{Kind: Class, Name: class.Name},
				"metadata.creationTimestamp",
				class.CreationTimestamp.UTC().String() + ", marked as the default", "",
			})
		}
	}
	return all
}

// formerSteps are about a volume that a claim of the same name had: save the data, then reserve it
// by name.
func formerSteps(miss near) (steps []Step) {
	pv := miss.pv
	if pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		steps = append(steps, retain(pv))
	}
	text := fmt.Sprintf("Volume %s was bound to an earlier claim of this name, and may have its data. To use it "+
		"again, remove the uid of that claim; the volume is then reserved for this one", pv.Name)
	var others []string
	for _, e := range miss.evidence {
		if e.Field != "spec.claimRef" && e.Field != "spec.storageClassName" && e.Field != "metadata.labels" {
			others = append(others, e.Field)
		}
	}
	if pv.DeletionTimestamp != nil {
		return append(steps,
			Step{Text: fmt.Sprintf("Volume %s was bound to an earlier claim of this name and is being deleted. "+
				"With the policy Retain its data stays on the backend: create a PersistentVolume with its handle for "+
				"this claim", pv.Name)})
	}
	if len(others) > 0 {
		text += fmt.Sprintf("; the claim must be created again first, so that %s agrees", strings.Join(others, ", "))
	}
	return append(steps, Step{
		Text: text,
		Command: shell.Command(
			`kubectl patch pv %s -p '{"spec":{"claimRef":{"uid":null,"resourceVersion":null}}}'`, pv.Name,
		),
		Risk: "the claim gets the old data and no new volume; any pod that uses it sees them",
	})
}

// retain is the advice that saves the data of a volume, which the API allows at any time.
func retain(pv *corev1.PersistentVolume) Step {
	return Step{
		Text: fmt.Sprintf(
			"First save the data: with the policy Retain volume %s is not deleted on the backend", pv.Name,
		),
		Command: shell.Command(`kubectl patch pv %s -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'`, pv.Name),
	}
}

// oneField is what makes a volume fit that one field keeps from the claim.
func oneField(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, field string) Step {
	fits := fmt.Sprintf("Volume %s fits but for %s. ", pv.Name, field)
	switch _, old := pv.Annotations[names.AnnBetaStorageClass]; {
	case field == "metadata.labels" && claim.Spec.Selector != nil && len(claim.Spec.Selector.MatchExpressions) == 0:
		step := Step{
			Text:    fits + "Give it the labels that the claim selects",
			Command: shell.Command("kubectl label --overwrite pv %s", pv.Name),
			Risk:    "any claim with such a selector may take the volume first",
		}
		for label := range strings.SplitSeq(labels.Set(claim.Spec.Selector.MatchLabels).String(), ",") {
			step.Command = step.Command.With(label)
		}
		return step
	case field == "spec.storageClassName" && !old:
		command := shell.Command(
			`kubectl patch pv %s -p {"spec":{"storageClassName":"%s"}}`, pv.Name, objects.ClaimClass(claim),
		)
		if objects.ClaimClass(claim) == "" {
			command = shell.Command(`kubectl patch pv %s -p '{"spec":{"storageClassName":""}}'`, pv.Name)
		}
		return Step{
			Text: fmt.Sprintf("%sThe volume has %s, the claim has %s. That of the volume can be changed, that of the "+
				"claim cannot: absent and \"\" of a claim differ, a volume has no class with either", fits,
				quoted(objects.VolumeClass(pv)), className(claim)),
			Command: command, Risk: "any claim of that class that fits may take the volume first",
		}
	}
	has, wanted := sides(field, pv, claim)
	return Step{
		Text: fmt.Sprintf(
			"%sIt has %s, wanted is %s. Create the claim again so that it asks for what the volume has", fits,
			quoted(has), wanted,
		),
		Command: shell.Command("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name), Risk: noVolumeYet,
	}
}

// hasVolumesOf reports whether a volume names the class.
func (c *Cluster) hasVolumesOf(class string) bool {
	return slices.ContainsFunc(
		c.Volumes, func(pv *corev1.PersistentVolume) bool { return objects.VolumeClass(pv) == class },
	)
}

// spareVolume names the claim that was probably meant for a volume without one: it waits, no volume
// is provisioned for it, and one field keeps it from the volume.
func (c *Cluster) spareVolume(pv *corev1.PersistentVolume) []Finding {
	for _, claim := range c.Claims {
		if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimPending {
			continue
		}
		differences := compare(pv, claim)
		if len(differences) != 1 || !slices.Contains(staticOnly, c.pendingClaim(claim)[0].Reason) {
			continue
		}
		return []Finding{{
			Reason: verdict.VolumeUnfit, Object: volumeRef(pv), Cause: claimRef(claim), Actor: Administrator,
			WaitsFor: fmt.Sprintf("a claim that fits; claim %s/%s was probably meant and differs in %s",
				claim.Namespace, claim.Name, differences[0].Field),
			Evidence: differences, Fix: []Step{oneField(pv, claim, differences[0].Field)},
		}}
	}
	return nil
}
