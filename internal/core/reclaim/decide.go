package reclaim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/migration"
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
	Now    time.Time
	Name   string
	Volume *corev1.PersistentVolume // nil: it does not exist
	InTree bool                     // Volume is one of an in-tree plugin, and was translated for the driver
	Driver Driver
	// Protector says that the volume protection controller of this cluster is in this process, so
	// that its finalizer goes with ours in one write. It would drop it in the next moment, and does
	// not mind that there is nothing left to drop.
	Protector bool
	// Fresh says that this is the first attempt since the watch has shown the release of the
	// volume, and with it all volumes that there were by then.
	Fresh bool

	// The rest matters only if [MayReclaim].

	// CallsEnd is when the CreateVolume calls of previous leaders for this volume must have ended;
	// one that is in flight when the volume is deleted would create it again (H-1).
	CallsEnd time.Time
	Attached []string // the nodes that a VolumeAttachment of this volume names
	Claim    Proof    // of the claim in spec.claimRef, if [NeedsProof]
	// the others of the driver with the same volume handle, as far as memory knows of them
	Twins []Twin
	Class *storagev1.StorageClass // the one from [ClassToRead]
}

// Twin is another PersistentVolume with the same volume handle, as the API server has it now (D-37).
type Twin struct {
	Volume *corev1.PersistentVolume
	Claim  Proof // if [NeedsProof]
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
	// AddFinalizer and DropFinalizer change finalizers and nothing else, on this very object (its
	// uid).
	AddFinalizer struct {
		Volume *corev1.PersistentVolume
		AsSeen bool // fails on an object in which anything has changed
	}
	// DropFinalizer is done when there is nothing left to drop. It does not compare with the view
	// that it was decided on, which may be old: by then there is nothing to protect any more, and
	// an object that keeps the finalizer is stuck (D-20, H-18).
	DropFinalizer struct {
		Volume *corev1.PersistentVolume
		Names  []string
	}
	// LetGo drops our finalizer only if the reclaim policy still is the one that was seen. The view
	// may be old, and a volume whose policy has become Delete meanwhile needs the finalizer.
	LetGo struct{ Volume *corev1.PersistentVolume }
	// LookForTwins asks the API server for all volumes with the handle. What follows is for
	// [AfterLook] to say.
	LookForTwins struct{}
	// DeleteVolume asks the driver. When that fails, what follows is for [AfterDelete] to say.
	DeleteVolume struct {
		Handle string
		Secret types.NamespacedName // for the call; empty for none
	}
	// DeleteObject deletes the PersistentVolume with this very uid; it is done when there is none.
	DeleteObject struct{ Volume *corev1.PersistentVolume }
)

func (AddFinalizer) action()  {}
func (DropFinalizer) action() {}
func (LetGo) action()         {}
func (LookForTwins) action()  {}
func (DeleteVolume) action()  {}
func (DeleteObject) action()  {}

// Decide says what to do for a PersistentVolume.
func Decide(s Snapshot) Verdict {
	switch {
	case s.Volume == nil:
		return Gone()
	case Owner(s.Volume) != s.Driver.Name: // D-2
		return idle(verdict.VolumeNotOurs, fmt.Sprintf("the PersistentVolume is for %q", Owner(s.Volume)))
	case !deletes(s.Volume):
		return keep(s.Volume)
	case reclaimable(s.Volume, s.Claim):
		return reclaim(s)
	case needsFinalizer(s.Volume):
		then := idle(verdict.VolumeProtected, "the PersistentVolume got our finalizer")
		return do{Finding: then.Because(), Actions: []Action{AddFinalizer{Volume: s.Volume}}, Then: then}
	case IsAbandoned(s.Volume):
		return idle(verdict.VolumeAbandoned, abandoned(s.Volume))
	case s.Claim == ClaimUnseen:
		return wait{
			Finding: verdict.Finding{Reason: verdict.VolumeInUse, Message: "the claim of the PersistentVolume exists"},
			Until:   s.Now.Add(lookAgain),
		}
	}
	return idle(verdict.VolumeInUse, "the PersistentVolume is not released")
}

func abandoned(pv *corev1.PersistentVolume) string {
	var handle string
	if pv.Spec.CSI != nil {
		handle = pv.Spec.CSI.VolumeHandle
	}
	return fmt.Sprintf(
		"PersistentVolume %s is being deleted without the finalizer %s, so volume %q may be left on the storage side",
		pv.Name,
		names.FinalizerVolume,
		handle,
	)
}

// lookAgain is how soon a claim that no watch shows is asked for again.
const lookAgain = 20 * time.Second

// Gone is said of a volume that does not exist, or not any more.
func Gone() Verdict { return idle(verdict.VolumeGone, "the PersistentVolume does not exist") }

// Owner is the driver that provisioned the volume, or, for one written by hand, the driver that
// serves it (D-2).
func Owner(pv *corev1.PersistentVolume) string {
	if driver, known := migration.Owner(pv.Annotations); known {
		return driver
	}
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return ""
}

// keep lets go of a volume that is not ours to delete (C-80, D-31).
func keep(pv *corev1.PersistentVolume) Verdict {
	then := idle(verdict.VolumeKept, fmt.Sprintf("the reclaim policy is %s", pv.Spec.PersistentVolumeReclaimPolicy))
	if !HasFinalizer(pv) {
		return then
	}
	return do{Finding: then.Because(), Actions: []Action{LetGo{pv}}, Then: then}
}

func reclaim(s Snapshot) Verdict {
	secret, finding := deletionSecret(s)
	switch {
	case s.Volume.Spec.CSI == nil || s.Volume.Spec.CSI.VolumeHandle == "": // D-12
		return refuse{Finding: verdict.Finding{
			Reason: verdict.VolumeInvalid, Message: "PersistentVolume spec.csi.volumeHandle is empty, so its volume cannot be deleted",
			Fix: "Delete the volume by hand, then remove the finalizer " + names.FinalizerVolume,
		}}
	case s.Volume.Spec.CSI.Driver != s.Driver.Name: // D-2, D-37: to our driver the handle means another volume, or none
		return refuse{Finding: foreign(s.Volume)}
	case !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME]: // D-14
		return refuse{Finding: verdict.Finding{
			Reason:  verdict.VolumeInvalid,
			Message: fmt.Sprintf("CSI driver %q does not have the capability CREATE_DELETE_VOLUME", s.Driver.Name),
		}}
	case finding != nil: // D-15
		return refuse{Finding: *finding}
	case NeedyTwin(s) != nil: // D-37
		return shared(s)
	case s.Now.Before(s.CallsEnd):
		return wait{Finding: verdict.Finding{
			Reason:  verdict.WaitForPreviousLeaderCalls,
			Message: "the previous leader may have a CreateVolume call in flight for the volume, which is deleted when that call must have ended",
		}, Until: s.CallsEnd}
	case len(s.Attached) > 0: // D-16, EV-8: woken up when the last VolumeAttachment goes
		return wait{Finding: verdict.Finding{
			Reason: verdict.VolumeAttached,
			Message: fmt.Sprintf(
				"persistentvolume %s is still attached to node %s",
				s.Volume.Name,
				strings.Join(s.Attached, ", "),
			),
		}}
	}
	// Two writes for each volume that we made. The finalizer goes before the object: another owner
	// of a finalizer there removes it when the object is deleted, and not at the same moment as we
	// do ours. A crash between the two leaves an object that says what is left to do (H-51).
	actions := []Action{
		DeleteVolume{s.Volume.Spec.CSI.VolumeHandle, secret},
		DropFinalizer{s.Volume, finalizers(s)},
		DeleteObject{s.Volume},
	}
	if !s.Fresh {
		// Memory may be older than another volume with the handle, as that of a new leader is whose
		// watch is behind, and what is under it is another claim's data. That takes a list of all
		// volumes, which the ordinary deletion does without (D-37).
		actions = append([]Action{LookForTwins{}}, actions...)
	}
	if !HasFinalizer(s.Volume) {
		// Written by hand and never seen bound. The object may be deleted while the driver is at
		// work, and then nothing would say that there was a volume (H-20). The third write is for
		// these few only. It takes time, in which the volume must not have been retained.
		actions = append([]Action{AddFinalizer{s.Volume, true}}, actions...)
	}
	return do{
		Finding: verdict.Finding{Reason: verdict.VolumeReclaim, Message: "deleting the volume"},
		Actions: actions,
		Then:    idle(verdict.VolumeReclaimed, "the volume and its PersistentVolume are deleted"),
	}
}

// AfterLook says what follows when all is as the API server has it; nil to go on.
func AfterLook(s Snapshot) Verdict {
	v := Decide(s)
	if v.Because().Reason == verdict.VolumeReclaim {
		return nil
	}
	return v
}

func foreign(pv *corev1.PersistentVolume) verdict.Finding {
	return verdict.Finding{
		Reason: verdict.VolumeInvalid,
		Message: fmt.Sprintf("the volume is not deleted: PersistentVolume annotation %s is %q, and spec.csi.driver is %q",
			names.AnnProvisionedBy, Owner(pv), pv.Spec.CSI.Driver),
		Fix: fmt.Sprintf(
			"Correct the annotation; and if no provisioner of %q runs, delete the volume by hand and remove the finalizer %s",
			pv.Spec.CSI.Driver,
			names.FinalizerVolume,
		),
	}
}

// finalizers that are not needed once the volume is deleted.
func finalizers(s Snapshot) []string {
	if s.Protector {
		return []string{names.FinalizerVolume, names.FinalizerPVProtection}
	}
	return []string{names.FinalizerVolume}
}

// shared refuses to delete a volume under another PersistentVolume. Upstream deletes it, and its
// data with it (#1235).
func shared(s Snapshot) Verdict {
	other := NeedyTwin(s)
	return refuse{Finding: verdict.Finding{
		Reason: verdict.VolumeShared,
		Message: fmt.Sprintf(
			"the volume is not deleted: PersistentVolume %q has the same spec.csi.volumeHandle %q, phase %s and reclaim policy %s",
			other.Name,
			s.Volume.Spec.CSI.VolumeHandle,
			other.Status.Phase,
			other.Spec.PersistentVolumeReclaimPolicy,
		),
		Fix: fmt.Sprintf(
			"Set the reclaim policy of %q to Retain to let go of it, or delete %q if it is the wrong one",
			s.Name,
			other.Name,
		),
	}}
}

// needsFinalizer finds bound volumes that were not provisioned by this program (C-81, D-3).
func needsFinalizer(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeBound && pv.DeletionTimestamp == nil && !HasFinalizer(pv)
}

// HasFinalizer reports whether the volume is protected by us (FI-1).
func HasFinalizer(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Finalizers, names.FinalizerVolume)
}

// AfterDelete says what a failed DeleteVolume means: a driver answers OK for a volume that does not
// exist, so every other code is a failure (D-17).
func AfterDelete(a DeleteVolume, f DeleteFailure) Verdict {
	finding := verdict.Finding{
		Reason: verdict.DeleteFailed, Message: fmt.Sprintf("deleting volume %q: rpc error: code = %s desc = %s", a.Handle, f.Code, f.Message),
	}
	if f.NoSecret {
		finding.Fix = fmt.Sprintf(
			"The call had no credentials, since secret %q does not exist; create it if the driver needs it",
			a.Secret,
		)
	}
	return refuse{Finding: finding}
}

// DeleteFailure is how DeleteVolume failed.
type DeleteFailure struct {
	Code     codes.Code
	Message  string // the driver's words, without secret values
	NoSecret bool   // the secret does not exist, so the call went without (D-15)
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Finding{Reason: reason, Message: message}}
}
