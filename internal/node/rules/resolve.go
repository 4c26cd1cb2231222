package mounting

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ephemeral "github.com/purser-csi/purser/internal/ephemeral/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Objects are the claims and volumes that a pod can name. A function returns nil for an object that
// does not exist.
type Objects struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
}

// Problem is a volume of a pod that cannot be mounted as the objects are.
type Problem struct {
	Volume string // name in the pod
	verdict.Finding
}

// Resolve returns the CSI volumes that the pod's containers use, and those that cannot be resolved
// yet (5.2). Volumes of other kinds and volumes that no container uses are left out.
func Resolve(pod *corev1.Pod, o Objects) ([]Use, []Problem) {
	mounts, devices := usedVolumes(pod)
	var uses []Use
	var problems []Problem
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !mounts[v.Name] && !devices[v.Name] {
			continue
		}
		switch {
		case v.CSI != nil:
			uses = append(uses, inlineUse(pod, v))
		case v.PersistentVolumeClaim != nil || v.Ephemeral != nil:
			use, finding := claimUse(pod, v, o)
			if finding == nil {
				finding = checkMode(use, v.Name, mounts[v.Name], devices[v.Name])
			}
			switch {
			case finding != nil:
				problems = append(problems, Problem{Volume: v.Name, Finding: *finding})
			case use.PV.Spec.CSI != nil: // other kinds of volumes are not the agent's
				uses = addUse(uses, use)
			}
		}
	}
	return uses, problems
}

// addUse adds a use. Two volumes of a pod with one claim are one mount, which is writable if one of
// them is.
func addUse(uses []Use, use Use) []Use {
	i := slices.IndexFunc(uses, func(u Use) bool { return u.ID == use.ID && u.Key == use.Key })
	if i < 0 {
		return append(uses, use)
	}
	uses[i].ReadOnly = uses[i].ReadOnly && use.ReadOnly
	return uses
}

// usedVolumes returns the names of the volumes that containers mount, and that they use as devices.
func usedVolumes(pod *corev1.Pod) (mounts, devices map[string]bool) {
	mounts, devices = map[string]bool{}, map[string]bool{}
	add := func(m []corev1.VolumeMount, d []corev1.VolumeDevice) {
		for i := range m {
			mounts[m[i].Name] = true
		}
		for i := range d {
			devices[d[i].Name] = true
		}
	}
	for i := range pod.Spec.InitContainers {
		add(pod.Spec.InitContainers[i].VolumeMounts, pod.Spec.InitContainers[i].VolumeDevices)
	}
	for i := range pod.Spec.Containers {
		add(pod.Spec.Containers[i].VolumeMounts, pod.Spec.Containers[i].VolumeDevices)
	}
	for i := range pod.Spec.EphemeralContainers {
		add(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].VolumeDevices)
	}
	return mounts, devices
}

func inlineUse(pod *corev1.Pod, v *corev1.Volume) Use {
	return Use{
		Key: Key{
			Driver: v.CSI.Driver,
			Pod:    pod.UID,
			Name:   v.Name,
		}, ID: ID{Pod: pod.UID, Spec: v.Name, Mode: Filesystem},
		Pod: pod, Name: v.Name, Inline: v.CSI, ReadOnly: v.CSI.ReadOnly != nil && *v.CSI.ReadOnly,
	}
}

func claimUse(pod *corev1.Pod, v *corev1.Volume, o Objects) (Use, *verdict.Finding) {
	var name string
	var readOnly bool
	if v.Ephemeral != nil {
		name = ephemeral.ClaimName(pod, v.Name)
	} else {
		name, readOnly = v.PersistentVolumeClaim.ClaimName, v.PersistentVolumeClaim.ReadOnly
	}
	claim := o.Claim(pod.Namespace, name)
	if finding := checkClaim(pod, v, name, claim); finding != nil {
		return Use{}, finding
	}
	pv := o.Volume(claim.Spec.VolumeName)
	switch {
	case pv == nil:
		return Use{}, awaited(
			"error processing PVC %s/%s: the PersistentVolume %q does not exist", pod.Namespace, name,
			claim.Spec.VolumeName,
		)
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return Use{}, awaited(
			"error processing PVC %s/%s: the PersistentVolume %q is not bound to this claim", pod.Namespace, name,
			pv.Name,
		)
	}
	use := Use{Pod: pod, Name: v.Name, PV: pv, Claim: claim, ReadOnly: readOnly}
	if csi := pv.Spec.CSI; csi != nil {
		use.Key = Key{Driver: csi.Driver, Handle: csi.VolumeHandle}
		use.ReadOnly = readOnly || csi.ReadOnly
	}
	use.ID = ID{Pod: pod.UID, Spec: pv.Name, Mode: Filesystem}
	if objects.IsBlock(pv.Spec.VolumeMode) {
		use.ID.Mode = Block
	}
	return use, nil
}

// checkClaim is the order of the checks of 5.2.
func checkClaim(pod *corev1.Pod, v *corev1.Volume, name string, claim *corev1.PersistentVolumeClaim) *verdict.Finding {
	switch {
	case claim == nil:
		return awaited("error processing PVC %s/%s: the claim does not exist", pod.Namespace, name)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, names.FinalizerPVCProtection):
		return awaited("error processing PVC %s/%s: PVC is being deleted", pod.Namespace, name)
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return awaited("error processing PVC %s/%s: PVC is not bound", pod.Namespace, name)
	case v.Ephemeral != nil && !metav1.IsControlledBy(claim, pod):
		return awaited(
			"PVC %s/%s was not created for pod %s/%s (pod is not owner)", pod.Namespace, name, pod.Namespace, pod.Name,
		)
	}
	return nil
}

func checkMode(use Use, volume string, mounted, device bool) *verdict.Finding {
	switch {
	case mounted && use.ID.Mode == Block:
		return unfit("volume %s has volumeMode %s, but is specified in volumeMounts", volume, use.ID.Mode)
	case device && use.ID.Mode == Filesystem:
		return unfit("volume %s has volumeMode %s, but is specified in volumeDevices", volume, use.ID.Mode)
	}
	return nil
}

func awaited(format string, args ...any) *verdict.Finding {
	return &verdict.Finding{Reason: verdict.MountClaimAwaited, Message: fmt.Sprintf(format, args...)}
}

func unfit(format string, args ...any) *verdict.Finding {
	return &verdict.Finding{Reason: verdict.MountUnfit, Message: fmt.Sprintf(format, args...)}
}
