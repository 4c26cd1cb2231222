package reclaim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// Verdict is what this package answers.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Snapshot is the world around one PersistentVolume as the gatherer saw it.
type Snapshot struct {
	Name     string
	Volume   *corev1.PersistentVolume // nil: it does not exist
	Attached []string                 // the nodes that a VolumeAttachment of this volume names
	Driver   Driver
}

// Driver is what must be known of the CSI driver.
type Driver struct {
	Name       string
	Controller map[csi.ControllerServiceCapability_RPC_Type]bool
}

// Action is one thing to do. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// AddFinalizer and DropFinalizer change our finalizer and nothing else, on this very object (its uid).
	AddFinalizer struct{ Volume *corev1.PersistentVolume }
	// DropFinalizer is done when there is nothing left to drop.
	DropFinalizer struct{ Volume *corev1.PersistentVolume }
	// DeleteVolume asks the driver. When that fails, what follows is for [AfterDelete] to say.
	DeleteVolume struct{ Handle string }
	// DeleteObject deletes the PersistentVolume with this very uid; it is done when there is none.
	DeleteObject struct{ Volume *corev1.PersistentVolume }
)

func (AddFinalizer) action()  {}
func (DropFinalizer) action() {}
func (DeleteVolume) action()  {}
func (DeleteObject) action()  {}

// Decide says what to do for a PersistentVolume.
func Decide(s Snapshot) Verdict {
	switch {
	case s.Volume == nil:
		return idle(verdict.VolumeGone, "the PersistentVolume does not exist")
	case Owner(s.Volume) != s.Driver.Name: // D-2
		return idle(verdict.VolumeNotOurs, fmt.Sprintf("the PersistentVolume is for %q", Owner(s.Volume)))
	case s.Volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return keep(s.Volume)
	case reclaimable(s.Volume):
		return reclaim(s)
	case needsFinalizer(s.Volume):
		then := idle(verdict.VolumeProtected, "the PersistentVolume got our finalizer")
		return do{Finding: then.Because(), Actions: []Action{AddFinalizer{s.Volume}}, Then: then}
	}
	return idle(verdict.VolumeInUse, "the PersistentVolume is not released")
}

// Owner is the driver that provisioned the volume, or, for one written by hand, the driver that serves it (D-2).
func Owner(pv *corev1.PersistentVolume) string {
	if by, ok := pv.Annotations[names.AnnProvisionedBy]; ok {
		return by
	}
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return ""
}

// keep lets go of a volume that is not ours to delete (C-80, D-31).
func keep(pv *corev1.PersistentVolume) Verdict {
	then := idle(verdict.VolumeKept, fmt.Sprintf("the reclaim policy is %s", pv.Spec.PersistentVolumeReclaimPolicy))
	if !hasFinalizer(pv) {
		return then
	}
	return do{Finding: then.Because(), Actions: []Action{DropFinalizer{pv}}, Then: then}
}

// reclaimable volumes are those that the PV controller released (C5, D-4), and those that are being deleted while no claim
// refers to them, which upstream leaves behind for ever (D-34). One that is being deleted and has lost our finalizer was
// dealt with before (D-33).
func reclaimable(pv *corev1.PersistentVolume) bool {
	deleting := pv.DeletionTimestamp != nil
	switch {
	case deleting && !hasFinalizer(pv):
		return false
	case pv.Status.Phase == corev1.VolumeReleased:
		return true
	}
	return deleting && pv.Spec.ClaimRef == nil
}

func reclaim(s Snapshot) Verdict {
	switch {
	case s.Volume.Spec.CSI == nil || s.Volume.Spec.CSI.VolumeHandle == "": // D-12
		return refuse{Finding: verdict.Finding{
			Reason: verdict.VolumeInvalid, Message: "PersistentVolume spec.csi.volumeHandle is empty, so its volume cannot be deleted",
			Fix: "Delete the volume by hand, then remove the finalizer " + names.FinalizerVolume,
		}}
	case !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME]: // D-14
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.VolumeInvalid,
			Message: fmt.Sprintf("CSI driver %q does not have the capability CREATE_DELETE_VOLUME", s.Driver.Name),
		}}
	case s.Volume.Annotations[names.AnnDeletionSecretName] != "": // D-15, until secrets are supported
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.VolumeInvalid,
			Message: "deleting the volume needs a secret, and secrets are not supported by this version of Purser",
		}}
	case len(s.Attached) > 0: // D-16, EV-8: woken up when the last VolumeAttachment goes
		return wait{Finding: verdict.Finding{
			Reason:  verdict.VolumeAttached,
			Message: fmt.Sprintf("persistentvolume %s is still attached to node %s", s.Volume.Name, strings.Join(s.Attached, ", ")),
		}}
	}
	then := idle(verdict.VolumeReclaimed, "the volume and its PersistentVolume are deleted")
	return do{
		Finding: verdict.Finding{Reason: verdict.VolumeReclaim, Message: "deleting the volume"},
		// The object goes before our finalizer: a crash between the two leaves an object that says what is left to do (H-51).
		Actions: []Action{DeleteVolume{s.Volume.Spec.CSI.VolumeHandle}, DeleteObject{s.Volume}, DropFinalizer{s.Volume}},
		Then:    then,
	}
}

// needsFinalizer finds bound volumes that were not provisioned by this program (C-81, D-3).
func needsFinalizer(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeBound && pv.DeletionTimestamp == nil && !hasFinalizer(pv)
}

func hasFinalizer(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Finalizers, names.FinalizerVolume)
}

// AfterDelete says what a failed DeleteVolume means: a driver answers OK for a volume that does not exist, so every other
// code is a failure (D-17).
func AfterDelete(handle string, code codes.Code, message string) Verdict {
	return refuse{Finding: verdict.Finding{
		Reason: verdict.DeleteFailed, Message: fmt.Sprintf("deleting volume %q: %s: %s", handle, code, message),
	}}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Finding{Reason: reason, Message: message}}
}
