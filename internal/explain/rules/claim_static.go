package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	binding "github.com/purser-csi/purser/internal/binder/rules"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/shell"
	"github.com/purser-csi/purser/internal/verdict"
)

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
	f.Evidence = []Evidence{{
		claimRef(claim), "spec.storageClassName", className(claim),
		"a class, or a default class in the cluster, or a volume that fits",
	}}
	if binding.AsksNoClass(claim) {
		f.Fix = append(f.Fix, Step{
			Text:    "Mark one StorageClass as the default; claims that name no class then get it",
			Command: "kubectl get storageclass",
		})
	} else {
		f.Fix = append(f.Fix, Step{Text: `The claim says "no class" (storageClassName: ""). ` +
			"Create it again with a class if a volume is to be provisioned: the field cannot be changed"})
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

// classMissing is about a claim that names a class that does not exist. A static volume of that
// class name would serve it as well.
func (c *Cluster) classMissing(claim *corev1.PersistentVolumeClaim, f Finding) []Finding {
	class := objects.ClaimClass(claim)
	f.Cause, f.Actor = Ref{Kind: Class, Name: class}, Administrator
	f.WaitsFor = fmt.Sprintf(
		"StorageClass %q, which does not exist, or a PersistentVolume of that class name that fits", class,
	)
	have := c.classNames()
	f.Evidence = []Evidence{{claimRef(claim), "spec.storageClassName", class, "one of: " + strings.Join(have, ", ")}}
	if !c.hasVolumesOf(class) {
		f.Fix = []Step{{
			Text: "Create the StorageClass; the claim goes on by itself then", Command: "kubectl get storageclass",
		}}
	} else {
		f.Fix = []Step{{
			Text: "Volumes have the name of this class, and it need not exist for them: the claim waits for one that " +
				"fits. Creating the class makes new, empty volumes instead",
			Command: "kubectl get pv",
		}}
	}
	f.Fix = append(f.Fix, Step{
		Text:    "Or create the claim again with a class that exists: the field cannot be changed",
		Command: shell.Command("kubectl -n %s delete pvc %s", claim.Namespace, claim.Name), Risk: noVolumeYet,
	})
	if c.lacks(Class) {
		f.Reason, f.WaitsFor = verdict.ExplainUnread, fmt.Sprintf(
			"StorageClass %q; StorageClasses were not read, so it is not known whether it exists", class,
		)
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
		f.Evidence = []Evidence{{
			claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, "a PersistentVolume that exists",
		}}
		f.Fix = []Step{{
			Text:    "Create the PersistentVolume, or create the claim again without spec.volumeName",
			Command: shell.Command("kubectl get pv %s", claim.Spec.VolumeName),
		}}
		return []Finding{f}
	}
	f.Evidence = append(
		[]Evidence{{claimRef(claim), "spec.volumeName", claim.Spec.VolumeName, ""}}, compare(pv, claim)...,
	)
	if why.Reason == verdict.VolumeTaken {
		f.Fix = c.takenFix(pv)
		return []Finding{f}
	}
	f.Fix = []Step{{
		Text: "Make the fields above agree: create the claim again with what the volume has, or correct the " +
			"PersistentVolume",
	}}
	return []Finding{f}
}

// takenFix depends on whether the other claim exists.
func (c *Cluster) takenFix(pv *corev1.PersistentVolume) []Step {
	ref := pv.Spec.ClaimRef
	if pv.Status.Phase == corev1.VolumeReleased &&
		pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		return []Step{{
			Text: "The volume still names a previous claim. Remove that reference, and the claim gets the volume " +
				"with its data",
			Command: shell.Command(
				`kubectl patch pv %s --type=json -p '[{"op":"remove","path":"/spec/claimRef"}]'`, pv.Name,
			),
			Risk: "any claim that fits may take the volume first, with its data; setting spec.claimRef to this claim " +
				"instead keeps it for this one",
		}}
	}
	return []Step{{
		Text: fmt.Sprintf(
			"The volume is for claim %s/%s. Choose another volume for this claim, or delete that claim first",
			ref.Namespace, ref.Name,
		),
		Command: shell.Command("kubectl -n %s get pvc %s", ref.Namespace, ref.Name),
		Risk: "deleting the other claim may delete the volume with its data (reclaim policy " +
			string(pv.Spec.PersistentVolumeReclaimPolicy) + ")",
	}}
}
