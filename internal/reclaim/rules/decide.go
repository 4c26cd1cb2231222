package reclaim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/verdict"
)

// Verdict is the result of a decision of this package.
type Verdict = verdict.Verdict[Action]

type (
	nothing = verdict.Nothing[Action]
	wait    = verdict.Wait[Action]
	refuse  = verdict.Refuse[Action]
	do      = verdict.Do[Action]
)

// Snapshot is the state of one PersistentVolume and of everything that its decision depends on.
type Snapshot struct {
	now    time.Time // of the decision
	Name   string
	Volume *corev1.PersistentVolume // nil: it does not exist
	InTree bool                     // Volume is of a migrated in-tree plugin, and was translated to CSI
	IsLive bool                     // Volume was read live, see [ReadVolume]
	Driver Driver
	// Protector says that the PV protection controller of this cluster runs in this process, so
	// that its finalizer is removed with ours in one write. That controller would remove it right
	// after, and accepts that it is gone.
	Protector bool
	// Attacher says that the attacher of the driver runs in this process, so its finalizer is removed in
	// the same write.
	Attacher bool
	Known    Known
	// Read has what decisions asked for. A reference that is not in it was not read.
	Read map[verdict.Ref]Answer
}

// Driver is the name and the capabilities of the CSI driver.
type Driver struct {
	Name       string
	Controller map[csi.ControllerServiceCapability_RPC_Type]bool
}

// Attaches reports whether volumes of the driver have VolumeAttachments at all (W-5).
func (d Driver) Attaches() bool {
	return d.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}

// Action is one effect for the controller to carry out. The interface is sealed.
//
//sumtype:decl
type Action interface{ action() }

type (
	// AddFinalizer adds our finalizer to the object with this uid, and changes nothing else.
	AddFinalizer struct {
		Volume      *corev1.PersistentVolume
		IfUnchanged bool // with a resourceVersion precondition
	}
	// RemoveFinalizers succeeds if the finalizers are removed already. It has no resourceVersion
	// precondition, since the cached object may be stale: the volume is deleted, so there is
	// nothing to protect, and an object that keeps the finalizer is stuck (D-20, H-18).
	RemoveFinalizers struct {
		Volume *corev1.PersistentVolume
		Names  []string
	}
	// RemoveFinalizerIfRetained removes our finalizer unless the live reclaim policy has become
	// Delete: the cached object may be stale, and a volume with that policy needs the finalizer.
	RemoveFinalizerIfRetained struct{ Volume *corev1.PersistentVolume }
	// DeleteVolume calls the driver, unless this process has written a PersistentVolume with the handle
	// since ([Snapshot.IsNew]); then [AfterNew] says what follows. If the call fails, [AfterSecret] or
	// [AfterDelete] does.
	DeleteVolume struct {
		Handle string
		Secret types.NamespacedName // for the call; empty for none
	}
	// DeleteObject deletes the PersistentVolume with this uid; it succeeds if there is none.
	DeleteObject struct{ Volume *corev1.PersistentVolume }
)

func (AddFinalizer) action()              {}
func (RemoveFinalizers) action()          {}
func (RemoveFinalizerIfRetained) action() {}
func (DeleteVolume) action()              {}
func (DeleteObject) action()              {}

// Decide returns what to do for a PersistentVolume.
func Decide(s Snapshot, now time.Time) Verdict {
	s.now = now
	switch {
	case s.Volume == nil:
		return Gone()
	case s.owner() != s.Driver.Name: // D-2
		return idle(verdict.VolumeNotOurs, fmt.Sprintf("the PersistentVolume is for %q", s.owner()))
	case !deletes(s.Volume):
		return keep(s.Volume)
	case reclaimable(s.Volume, ClaimGone):
		return released(s)
	case needsFinalizer(s.Volume):
		then := idle(verdict.VolumeProtected, "the PersistentVolume got our finalizer")
		return do{
			Finding: then.Because(), Actions: []Action{AddFinalizer{Volume: s.Volume}}, Then: then, Deferrable: true,
		}
	case IsAbandoned(s.Volume) && s.Known.Reclaimed:
		return idle(verdict.VolumeGone, "the volume is deleted, and other finalizers keep the PersistentVolume")
	case IsAbandoned(s.Volume):
		return idle(verdict.VolumeAbandoned, abandoned(s.Volume))
	}
	return inUse("the PersistentVolume is not released")
}

// owner is [Owner] for the volume. An in-tree volume is no driver's until the PV controller has
// annotated it.
func (s Snapshot) owner() string {
	if driver, _ := objects.Owner(s.Volume.Annotations); s.InTree {
		return driver
	}
	return Owner(s.Volume)
}

func inUse(message string) Verdict { return idle(verdict.VolumeInUse, message) }

// released decides about a volume that is reclaimed if its claim is gone. The cached volume decides,
// and proves that the claim is gone, only right after this process has observed the release. Otherwise
// the volume and its claim are read live: if the release is old, if a deletion failed, or if the claim
// is another one than the volume was released from (I3). So an ordinary deletion costs no read.
func released(s Snapshot) Verdict {
	proof := ClaimGone
	if s.IsLive || !s.sawRelease() || !IsFresh(s.Volume, s.now) {
		switch {
		case !s.IsLive && s.Known.IsComing:
			return inUse("the event of this version of the PersistentVolume is still to come")
		case !s.IsLive:
			return verdict.MustRead[Action](s.volumeRef())
		}
		if missing := s.unread(s.proofRefs()...); missing != nil {
			return verdict.MustRead[Action](missing...)
		}
		proof = s.proofOf(s.Volume)
	}
	switch {
	case reclaimable(s.Volume, proof):
		return reclaim(s)
	case proof == ClaimUncached:
		return wait{
			Finding: verdict.Because(verdict.VolumeInUse, "the claim of the PersistentVolume exists"),
			Until:   s.now.Add(claimRecheck),
		}
	}
	return inUse("the PersistentVolume is not released")
}

func abandoned(pv *corev1.PersistentVolume) string {
	var handle string
	if pv.Spec.CSI != nil {
		handle = pv.Spec.CSI.VolumeHandle
	}
	return fmt.Sprintf(
		"PersistentVolume %s is being deleted without the finalizer %s, so volume %q may be left in the backend",
		pv.Name,
		names.FinalizerVolume,
		handle,
	)
}

// claimRecheck is the requeue interval while the informer cache does not have the claim.
const claimRecheck = 20 * time.Second

// Gone is the verdict for a volume that does not exist.
func Gone() Verdict { return idle(verdict.VolumeGone, "the PersistentVolume does not exist") }

// Owner returns the driver that provisioned the volume. For a static volume it is the driver in
// spec.csi (D-2).
func Owner(pv *corev1.PersistentVolume) string {
	if driver, known := objects.Owner(pv.Annotations); known {
		return driver
	}
	if pv.Spec.CSI != nil {
		return pv.Spec.CSI.Driver
	}
	return ""
}

// keep removes our finalizer from a volume that this controller must not delete (C-80, D-31).
func keep(pv *corev1.PersistentVolume) Verdict {
	then := idle(verdict.VolumeKept, fmt.Sprintf("the reclaim policy is %s", pv.Spec.PersistentVolumeReclaimPolicy))
	if !HasFinalizer(pv) {
		return then
	}
	return do{
		Finding: then.Because(), Actions: []Action{RemoveFinalizerIfRetained{pv}}, Then: then,
		Deferrable: pv.DeletionTimestamp == nil,
	}
}

// reclaim deletes the volume unless its PersistentVolume or what is around it forbids that.
func reclaim(s Snapshot) Verdict {
	if finding := undeletable(s); finding != nil {
		return refuse{Finding: *finding}
	}
	if kept := reuseFinding(s.Volume); kept != nil { // 8.14
		return refuse{Finding: *kept, Retry: verdict.RetrySlowly}
	}
	refs := s.classRefs()
	if !s.listed() {
		refs = append(refs, s.handleRef(ReadSameHandle))
	}
	if missing := s.unread(refs...); missing != nil {
		return verdict.MustRead[Action](missing...)
	}
	if missing := s.unread(s.otherClaimRefs()...); missing != nil {
		return verdict.MustRead[Action](missing...)
	}
	secret, finding := deletionSecret(s)
	switch {
	case finding != nil: // D-15
		return refuse{Finding: *finding}
	case SharedWith(s) != nil: // D-37
		return shared(s)
	}
	return whenFree(s, secret)
}

// whenFree deletes the volume when no call of a previous leader and no VolumeAttachment forbids that.
func whenFree(s Snapshot, secret types.NamespacedName) Verdict {
	if missing := s.unread(s.aroundRefs()...); missing != nil {
		return verdict.MustRead[Action](missing...)
	}
	attached, callsEnd := s.around()
	switch {
	case s.now.Before(callsEnd): // a call in flight would create the volume again after its deletion (H-1)
		return wait{Finding: verdict.Because(
			verdict.WaitForPreviousLeaderCalls,
			"the previous leader may have a CreateVolume call in flight for the volume, which is deleted when that "+
				"call must have ended",
		), Until: callsEnd}
	case len(attached) > 0: // D-16, EV-8: enqueued when the last VolumeAttachment is deleted
		return wait{Finding: verdict.Because(
			verdict.VolumeAttached,
			"persistentvolume %s is still attached to node %s", s.Volume.Name, strings.Join(attached, ", "),
		)}
	case !s.sawRelease() && !s.listed():
		// The cache may lack another volume with the handle, such as one of a new leader, and the
		// data is that volume's. A live list of all volumes shows it; an ordinary deletion does not
		// need the list (D-37).
		return AfterNew(s)
	}
	return deleteVolume(s, secret)
}

// undeletable returns why the volume can never be deleted as its PersistentVolume is; nil if it can.
func undeletable(s Snapshot) *verdict.Finding {
	var f verdict.Finding
	switch {
	case s.Volume.Spec.CSI == nil || s.Volume.Spec.CSI.VolumeHandle == "": // D-12
		f = verdict.Finding{
			Reason:  verdict.VolumeInvalid,
			Message: "PersistentVolume spec.csi.volumeHandle is empty, so its volume cannot be deleted",
			Fix:     "Delete the volume by hand, then remove the finalizer " + names.FinalizerVolume,
		}
	case s.Volume.Spec.CSI.Driver != s.Driver.Name: // D-2, D-37: for our driver the handle is another volume, or none
		f = foreign(s.Volume)
	case !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME]: // D-14
		f = verdict.Because(
			verdict.VolumeInvalid, "CSI driver %q does not have the capability CREATE_DELETE_VOLUME", s.Driver.Name,
		)
	default:
		return nil
	}
	return &f
}

// deleteVolume has two writes for each volume that we provisioned. The finalizer is removed before the
// object is deleted, so that our write does not race with that of another finalizer's owner, who removes
// it upon the deletion. A crash between the two leaves an object that shows what is left to do (H-51).
func deleteVolume(s Snapshot, secret types.NamespacedName) Verdict {
	actions := []Action{
		DeleteVolume{s.Volume.Spec.CSI.VolumeHandle, secret},
		RemoveFinalizers{s.Volume, finalizers(s)},
		DeleteObject{s.Volume},
	}
	if !HasFinalizer(s.Volume) {
		// A static volume that was never seen bound has no finalizer. If its object is deleted
		// during DeleteVolume, no object names the volume any more (H-20). The precondition fails
		// if the volume was retained meanwhile.
		actions = append([]Action{AddFinalizer{s.Volume, true}}, actions...)
	}
	return do{
		Finding: verdict.Because(verdict.VolumeReclaim, "deleting the volume"),
		Actions: actions,
		Then:    idle(verdict.VolumeReclaimed, "the volume and its PersistentVolume are deleted"),
	}
}

func foreign(pv *corev1.PersistentVolume) verdict.Finding {
	return verdict.Finding{
		Reason: verdict.VolumeInvalid,
		Message: fmt.Sprintf("the volume is not deleted: PersistentVolume annotation %s is %q, and spec.csi.driver "+
			"is %q",
			names.AnnProvisionedBy, Owner(pv), pv.Spec.CSI.Driver),
		Fix: fmt.Sprintf(
			"Correct the annotation; and if no provisioner of %q runs, delete the volume by hand and remove the "+
				"finalizer %s",
			pv.Spec.CSI.Driver,
			names.FinalizerVolume,
		),
	}
}

// finalizers returns those that are removed once the volume is deleted.
func finalizers(s Snapshot) []string {
	all := []string{names.FinalizerVolume}
	if s.Protector {
		all = append(all, names.FinalizerPVProtection)
	}
	attacher := names.AttacherFinalizer(s.Driver.Name)
	if s.Attacher && slices.Contains(s.Volume.Finalizers, attacher) {
		all = append(all, attacher) // no VolumeAttachment is left, see whenFree
	}
	return all
}

// shared refuses to delete the volume of another PersistentVolume. Upstream deletes it with its
// data (#1235).
func shared(s Snapshot) Verdict {
	other := SharedWith(s)
	return refuse{Finding: verdict.Finding{
		Reason: verdict.VolumeShared,
		Message: fmt.Sprintf(
			"the volume is not deleted: PersistentVolume %q has the same spec.csi.volumeHandle %q, phase %s and "+
				"reclaim policy %s",
			other.Name,
			s.Volume.Spec.CSI.VolumeHandle,
			other.Status.Phase,
			other.Spec.PersistentVolumeReclaimPolicy,
		),
		Fix: fmt.Sprintf(
			"Set the reclaim policy of %q to Retain, or delete %q if it is the wrong one", s.Name, other.Name,
		),
	}}
}

// needsFinalizer reports whether a bound volume lacks our finalizer, since this program did not
// provision it (C-81, D-3).
func needsFinalizer(pv *corev1.PersistentVolume) bool {
	return pv.Status.Phase == corev1.VolumeBound && pv.DeletionTimestamp == nil && !HasFinalizer(pv)
}

// HasFinalizer reports whether the volume has our finalizer (FI-1).
func HasFinalizer(pv *corev1.PersistentVolume) bool {
	return slices.Contains(pv.Finalizers, names.FinalizerVolume)
}

// AfterDelete returns what follows from a failed DeleteVolume. The driver answers OK for a volume
// that does not exist, so every other code is a failure (D-17).
func AfterDelete(a DeleteVolume, f csispec.Failure) Verdict {
	finding := verdict.Because(verdict.DeleteFailed, "deleting volume %q: %s", a.Handle, f.Words())
	if f.Secret.Name != "" {
		finding.Fix = fmt.Sprintf(
			"The call had no credentials, since secret %q does not exist; create it if the driver needs it",
			f.Secret,
		)
	}
	return refuse{Finding: finding}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Because(reason, "%s", message)}
}
