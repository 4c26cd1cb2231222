package explain

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	resizing "github.com/purser-csi/purser/internal/resize/rules"

	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/verdict"
)

// driverOfVolume returns the CSI driver that expands the volume; empty for none. A claim of a
// migrated volume names it.
func driverOfVolume(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return claim.Annotations[names.AnnStorageResizer]
}

// decideResize returns the decision of the resizer about the claim. A fresh process is assumed, and
// a driver that expands through its controller: neither is in the API.
func (c *Cluster) decideResize(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) resizing.Verdict {
	// Where a kind is missing, or the read fails, the snapshot is without a claim and nothing
	// follows.
	s, _, _ := c.Gather.Resizing(claimKey(claim), resizing.Driver{Name: driverOfVolume(claim, pv), Controller: true})
	return resizing.Decide(s, c.Now)
}

func claimKey(claim *corev1.PersistentVolumeClaim) objects.ClaimKey {
	return objects.ClaimKey{NamespacedName: keyOf(claim), UID: claim.UID}
}

// nextSize returns the size that a decision asks the driver for; nil for none.
func nextSize(v resizing.Verdict) *resource.Quantity {
	todo, ok := v.(verdict.Do[resizing.Action])
	if !ok {
		return nil
	}
	for _, action := range todo.Actions {
		if expand, asks := action.(resizing.Expand); asks {
			return &expand.Size
		}
	}
	return nil
}

// isRefused reports whether the last size is infeasible and still the one that is asked for: after
// a smaller request it is not (KEP-1790).
func isRefused(claim *corev1.PersistentVolumeClaim, next *resource.Quantity) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		last, recorded := claim.Status.AllocatedResources[corev1.ResourceStorage]
		return next == nil || !recorded || size.Compare(*next, last) == 0
	default:
		return false
	}
}

// otherSizeFirst is about an expansion whose outcome is unknown, and which is finished before the
// size that the claim asks for now (RZ-D8).
func (c *Cluster) otherSizeFirst(
	claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, next resource.Quantity, f Finding,
) Finding {
	wants, driver := claim.Spec.Resources.Requests[corev1.ResourceStorage], driverOfVolume(claim, pv)
	f = f.waits(verdict.ExpansionAwaited, Itself,
		"the driver to finish the expansion to %s, which was begun before; %s are asked for after that", next.String(),
		wants.String())
	if size.Compare(wants, next) < 0 {
		f.WaitsFor = fmt.Sprintf(
			"the driver to finish the expansion to %s, whose outcome is not known; the %s that the claim asks for "+
				"now are less",
			next.String(), wants.String(),
		)
	}
	f.Evidence = append(f.Evidence, c.leaseEvidence(resizer(driver))...)
	f.Fix = []Step{{
		Text: "Nothing: the call is repeated until the driver gives a final answer. What it says is in the log of " +
			"csi-resizer",
	}}
	return f
}

// decideModification returns the decision of the resizer about the VolumeAttributesClass of the
// claim. A driver that can modify volumes is assumed.
func (c *Cluster) decideModification(claim *corev1.PersistentVolumeClaim) resizing.AttributesVerdict {
	driver := resizing.AttributesDriver{Modifies: true}
	if pv := c.index.volumes[claim.Spec.VolumeName]; pv != nil {
		driver.Name = driverOfVolume(claim, pv)
	}
	s, _, _ := c.Gather.Modification(claimKey(claim), driver) // as for [Cluster.decideResize]
	return resizing.DecideAttributes(s, c.Now)
}

func (c *Cluster) attributesClass(name string) *storagev1.VolumeAttributesClass {
	for _, class := range c.AttributesClasses {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// otherClassFirst is about a modification whose outcome is unknown, and which is finished before
// the class that the claim names now (RZ-M5).
func otherClassFirst(claim *corev1.PersistentVolumeClaim, target string, f Finding) Finding {
	f.Cause, f.Actor = Ref{Kind: AttributesClass, Name: target}, Itself
	f.WaitsFor = fmt.Sprintf("the driver to finish the modification to class %q, whose outcome is not known; class "+
		"%q, which the claim names now, comes after that",
		target, deref(claim.Spec.VolumeAttributesClassName))
	f.Fix = []Step{{
		Text: "Nothing: the call is repeated until the driver gives a final answer. What it says is in the log of " +
			"csi-resizer",
	}}
	return f
}

// classOfOtherDriver is about a class that the volume's driver does not know (RZ-H13).
func (c *Cluster) classOfOtherDriver(claim *corev1.PersistentVolumeClaim, why verdict.Finding, f Finding) Finding {
	name := deref(claim.Spec.VolumeAttributesClassName)
	f = f.waits(why.Reason, User, "a VolumeAttributesClass of the volume's driver: %s", why.Message)
	if class, pv := c.attributesClass(name), c.index.volumes[claim.Spec.VolumeName]; class != nil && pv != nil {
		f.Evidence = append(f.Evidence, Evidence{f.Cause, "driverName", class.DriverName, driverOfVolume(claim, pv)})
	}
	f.Fix = []Step{{
		Text:    "Name a class of the volume's driver. csi-resizer of upstream applies the class all the same",
		Command: "kubectl get volumeattributesclass",
	}}
	return f
}
