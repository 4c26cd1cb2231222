package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/purser-csi/purser/internal/core/binding"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// mostNear bounds how many volumes that almost fit are named.
const mostNear = 5

// near is a static volume and the reason why the claim cannot be bound to it.
type near struct {
	pv       *corev1.PersistentVolume
	evidence []Evidence
}

// nearMisses compares the claim with each volume that no other claim has, side by side; those with
// the fewest differences first.
func (c *Cluster) nearMisses(claim *corev1.PersistentVolumeClaim) []near {
	var all []near
	for _, pv := range c.Volumes {
		if pv.Spec.ClaimRef != nil && pv.Status.Phase == corev1.VolumeBound || isProvisioned(pv) && pv.Spec.ClaimRef != nil {
			continue
		}
		if differences := compare(pv, claim); len(differences) > 0 {
			all = append(all, near{pv, differences})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(len(a.evidence), len(b.evidence)), cmp.Compare(a.pv.Name, b.pv.Name))
	})
	return all
}

// compare returns each rule of matching that the volume does not meet (1.9).
func compare(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []Evidence {
	var out []Evidence
	add := func(field, has, wanted string) {
		out = append(out, Evidence{volumeRef(pv), field, quoted(has), wanted})
	}
	if ref := pv.Spec.ClaimRef; ref != nil &&
		(ref.Namespace != claim.Namespace || ref.Name != claim.Name || ref.UID != "" && ref.UID != claim.UID) {
		add("spec.claimRef", describeClaimRef(pv), fmt.Sprintf("absent, or %s/%s with uid %s", claim.Namespace, claim.Name, claim.UID))
	}
	if pv.DeletionTimestamp != nil {
		add("metadata.deletionTimestamp", pv.DeletionTimestamp.String(), "absent")
	}
	if class, wants := objects.VolumeClass(pv), objects.ClaimClass(claim); class != wants {
		add("spec.storageClassName", class, "the claim's: "+quoted(wants))
	}
	has, wants := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if has.Cmp(wants) < 0 {
		add("spec.capacity.storage", has.String(), "at least "+wants.String())
	}
	if mode, wants := volumeMode(pv.Spec.VolumeMode), volumeMode(claim.Spec.VolumeMode); mode != wants {
		add("spec.volumeMode", string(mode), "the claim's: "+string(wants))
	}
	if missing := missingModes(pv, claim); len(missing) > 0 {
		add("spec.accessModes", fmt.Sprint(pv.Spec.AccessModes), "also "+strings.Join(missing, ", "))
	}
	if selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector); err == nil &&
		claim.Spec.Selector != nil && !selector.Matches(labels.Set(pv.Labels)) {
		add("metadata.labels", labels.Set(pv.Labels).String(), "the claim's spec.selector: "+selector.String())
	}
	if has, wants := deref(pv.Spec.VolumeAttributesClassName), deref(claim.Spec.VolumeAttributesClassName); has != wants {
		add("spec.volumeAttributesClassName", has, "the claim's: "+quoted(wants))
	}
	return out
}

func missingModes(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []string {
	var missing []string
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(pv.Spec.AccessModes, mode) {
			missing = append(missing, string(mode))
		}
	}
	return missing
}

func volumeMode(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

func deref[T any](p *T) T {
	var zero T
	if p == nil {
		return zero
	}
	return *p
}

// noVolume is about a claim without a class to provision from: only a static volume can serve it.
func (c *Cluster) noVolume(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	f.Actor = Administrator
	f.WaitsFor = "a PersistentVolume that fits: the claim has no StorageClass, so none is provisioned"
	f.Evidence = []Evidence{{claimRef(claim), "spec.storageClassName", className(claim), "a class, or a default class in the cluster, or a volume that fits"}}
	f.Evidence = append(f.Evidence, c.nearEvidence(claim)...)
	if binding.AsksNoClass(claim) {
		f.Fix = append(f.Fix, Step{
			Text:    "Mark one StorageClass as the default; claims that name no class then get it",
			Command: `kubectl annotate storageclass NAME storageclass.kubernetes.io/is-default-class=true`,
		})
	} else {
		f.Fix = append(f.Fix, Step{Text: `The claim says "no class" (storageClassName: ""). Create it again with a class if a volume is to be provisioned: the field cannot be changed`})
	}
	f.Fix = append(f.Fix, Step{Text: "Or create a PersistentVolume that fits in size, class, mode and access modes"})
	return []Finding{f}
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if binding.AsksNoClass(claim) {
		return "absent"
	}
	return quoted(objects.ClaimClass(claim))
}

// nearEvidence names the volumes that almost fit and what each lacks.
func (c *Cluster) nearEvidence(claim *corev1.PersistentVolumeClaim) []Evidence {
	var out []Evidence
	misses := c.nearMisses(claim)
	for i, miss := range misses {
		if i == mostNear {
			break
		}
		out = append(out, miss.evidence...)
	}
	return out
}

// classMissing is about a claim that names a class that does not exist. A static volume of that
// class name would serve it as well.
func (c *Cluster) classMissing(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	class := objects.ClaimClass(claim)
	f.Cause, f.Actor = Ref{Kind: Class, Name: class}, Administrator
	f.WaitsFor = fmt.Sprintf("StorageClass %q, which does not exist, or a PersistentVolume of that class name that fits", class)
	have := c.classNames()
	f.Evidence = append([]Evidence{{claimRef(claim), "spec.storageClassName", class, "one of: " + strings.Join(have, ", ")}}, c.nearEvidence(claim)...)
	f.Fix = []Step{
		{Text: "Create the StorageClass; the claim goes on by itself then", Command: "kubectl get storageclass"},
		{
			Text: "Or create the claim again with a class that exists: the field cannot be changed", Command: fmt.Sprintf("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name),
			Risk: "none for data: the claim has no volume yet",
		},
	}
	if c.lacks(Class) {
		f.Reason, f.WaitsFor = verdict.ExplainUnread, fmt.Sprintf("StorageClass %q; StorageClasses were not read, so it is not known whether it exists", class)
	}
	return []Finding{f}
}

// classNames lists the classes in order.
func (c *Cluster) classNames() []string {
	var list []string
	for _, class := range c.Classes {
		list = append(list, class.Name)
	}
	slices.Sort(list)
	return list
}

// preBound is about a claim that names its volume.
func (c *Cluster) preBound(claim *corev1.PersistentVolumeClaim, why verdict.Finding, f Finding) []Finding {
	f.Cause, f.WaitsFor, f.Actor = Ref{Kind: Volume, Name: claim.Spec.VolumeName}, why.Message, Administrator
	pv := c.index.volumes[claim.Spec.VolumeName]
	if pv == nil {
		f.Evidence = []Evidence{{claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, "a PersistentVolume that exists"}}
		f.Fix = []Step{{Text: "Create the PersistentVolume, or create the claim again without spec.volumeName", Command: "kubectl get pv " + claim.Spec.VolumeName}}
		return []Finding{f}
	}
	f.Evidence = append([]Evidence{{claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, ""}}, compare(pv, claim)...)
	if why.Reason == verdict.VolumeTaken {
		f.Fix = c.takenFix(pv)
		return []Finding{f}
	}
	f.Fix = []Step{{Text: "Make the fields above agree: create the claim again with what the volume has, or correct the PersistentVolume"}}
	return []Finding{f}
}

// takenFix depends on whether the other claim exists.
func (c *Cluster) takenFix(pv *corev1.PersistentVolume) []Step {
	ref := pv.Spec.ClaimRef
	if pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return []Step{{
			Text:    "The volume still names a previous claim. Remove that reference, and the claim gets the volume with its data",
			Command: fmt.Sprintf(`kubectl patch pv %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`, pv.Name),
			Risk:    "any claim that fits may take the volume first, with its data; setting spec.claimRef to this claim instead keeps it for this one",
		}}
	}
	return []Step{{
		Text:    fmt.Sprintf("The volume is for claim %s/%s. Choose another volume for this claim, or delete that claim first", ref.Namespace, ref.Name),
		Command: fmt.Sprintf("kubectl -n %s get pvc %s", ref.Namespace, ref.Name), Risk: "deleting the other claim may delete the volume with its data (reclaim policy " +
			string(pv.Spec.PersistentVolumeReclaimPolicy) + ")",
	}}
}
