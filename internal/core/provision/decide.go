package provision

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/core/intent"
	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/objects"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// check looks at one rule. It answers nil when the rule has nothing against going on.
type check func(Snapshot) Verdict

// The order matters: the first answer is the one that people see (C-10 to C-16, C-50 to C-64).
var checks = []check{
	checkGone,
	checkBound,
	checkOurs,
	checkExisting,
	checkDeleting,
	checkPending,
	checkClass,
	checkNode,
	checkConsumer,
	checkSource,
	checkCapabilities,
	checkSourceCapabilities,
	checkAttributesCapability,
}

// Decide says what to do for a claim. now is compared with the times in the snapshot only.
func Decide(s Snapshot, now time.Time) Verdict {
	s.now = now
	v := decide(s)
	if s.Pending != nil && now.Before(s.Pending.CallsEnd) && (mayDelete(s, v) || isRacing(s, v)) {
		return untilCallsEnd(s)
	}
	if _, acts := v.(do); acts && now.Before(s.Retry.NotBefore) && unchanged(s) {
		return wait{
			Finding: verdict.Finding{
				Reason:  verdict.WaitForRetry,
				Message: "the last attempt failed, the next one is not due yet",
			},
			Until: lookAgain(s, now),
		}
	}
	return untilSeen(s, v, now)
}

// volumeLook is how often a volume is looked at that no watch shows: no event would show its
// deletion.
const volumeLook = 30 * time.Second

// untilSeen has what is finished looked at again while memory does not show the volume.
func untilSeen(s Snapshot, v Verdict, now time.Time) Verdict {
	if !s.VolumeUnseen {
		return v
	}
	switch v := v.(type) {
	case nothing:
		return wait{Finding: v.Finding, Until: now.Add(volumeLook)}
	case do:
		v.Then = untilSeen(s, v.Then, now)
		return v
	}
	return v
}

// secretLook and sourceLook are how often a secret, or a source with what belongs to it, is read
// while a claim waits: upstream's role may get them and not watch them.
const (
	secretLook = 30 * time.Second
	sourceLook = 10 * time.Second
)

// lookAfter returns how often the inputs of a waiting claim are read that no watch shows; 0 for
// never.
func lookAfter(s Snapshot) time.Duration {
	switch {
	case !s.Source.Ref.IsNone() || attributesClass(s) != "":
		return sourceLook
	case s.Secret.Access == Readable:
		return secretLook
	}
	return 0
}

// lookAgain is when a claim that waits is looked at again: when it is due, or before, to see
// whether an input has changed that no watch shows (H-43).
func lookAgain(s Snapshot, now time.Time) time.Time {
	after := lookAfter(s)
	if look := now.Add(after); after > 0 && look.Before(s.Retry.NotBefore) {
		return look
	}
	return s.Retry.NotBefore
}

func decide(s Snapshot) Verdict {
	for _, c := range checks {
		if v := c(s); v != nil {
			return v
		}
	}
	entry, finding := newEntry(s)
	if finding == nil {
		finding = cmp.Or(unseen(s), unreadable(s, entry.Secrets))
	}
	switch {
	case finding == nil:
		return create(s, entry, protect(s)...)
	case finding.Reason == verdict.NodeTopologyUnknown && (isNodeGone(s) || s.Retry.Failed >= patience):
		return reschedule(s, *finding)
	}
	return refuse{Finding: *finding, Look: lookAfter(s)}
}

// patience is after how many failed attempts in a row a node is given up that does not say where it
// is, or has not got the driver: with the delays of the flags' defaults, after four minutes (H-9,
// U-15).
const patience = 8

// isNodeGone reports whether the selected node does not exist any more, or has lost its drivers
// (C-61, C-104, H-8, 8.19). One that has not got this driver may be about to get it.
func isNodeGone(s Snapshot) bool { return s.Node == nil || s.CSINode == nil }

// reschedule lets the scheduler choose another node: it does not by itself while the claim names one.
func reschedule(s Snapshot, f verdict.Finding, before ...Action) Verdict {
	f.Message += fmt.Sprintf("; the selection of node %q is removed, so that the scheduler selects again", selectedNode(s.Claim))
	return do{
		Finding: f, Actions: append(before, Reschedule{s.Claim}),
		Then: idle(verdict.Rescheduled, "the node selection was taken back"),
	}
}

// newEntry is what is to be asked of the driver, in the order of the checks C-55 to C-63.
func newEntry(s Snapshot) (intent.Entry, *verdict.Finding) {
	request, finding := NewRequest(s)
	if finding != nil {
		return intent.Entry{}, finding
	}
	secrets, finding := newSecrets(s)
	if finding != nil {
		return intent.Entry{}, finding
	}
	return intent.Entry{
		Claim:      s.Key.NamespacedName,
		UID:        s.Key.UID,
		VolumeName: request.GetName(),
		Request:    request,
		Secrets:    secrets,
	}, nil
}

// create records before it asks: a record without a volume is a wasted call after a crash, a volume
// without a record is lost (H-1).
func create(s Snapshot, e intent.Entry, before ...Action) Verdict {
	return do{
		Finding: verdict.Finding{
			Reason:  verdict.Provisioning,
			Message: fmt.Sprintf("External provisioner is provisioning volume for claim %q", s.Key.NamespacedName), // EV-1
		},
		Actions: append(before, Record{e}, CreateVolume{Request: e.Request, Secrets: e.Secrets}),
	}
}

// checkGone settles what was begun for a claim that no longer exists: the recorded call is repeated
// to learn the handle, and the volume is deleted by the answer (C-91, H-1). When its
// PersistentVolume exists the call had succeeded, and the reclaim controller owns the rest. One of
// another driver is no proof: a class that was made again for that driver has led the claim there.
func checkGone(s Snapshot) Verdict {
	switch {
	case s.Claim != nil:
		return nil
	case s.Pending == nil:
		return idle(verdict.ClaimGone, "the claim does not exist")
	case isAnswered(s):
		return settled(verdict.ClaimGone, "the claim does not exist, and its volume has a PersistentVolume")
	}
	return redo(s)
}

func checkBound(s Snapshot) Verdict { // C-11
	if s.Claim.Spec.VolumeName == "" {
		return nil
	}
	switch {
	case s.Pending == nil:
		return idle(verdict.ClaimBound, "the claim names its volume: "+s.Claim.Spec.VolumeName)
	case isAnswered(s), s.Volume == nil && wasBound(s.Claim, s.Pending.VolumeName):
		return settled(verdict.ClaimBound, "the claim is bound to its volume")
	}
	return redo(s)
}

// wasBound reports whether the PersistentVolume of the name, which does not exist any more, was
// written: a claim is not bound to one that does not exist. An administrator has removed it by
// force, and keeps the data.
func wasBound(claim *corev1.PersistentVolumeClaim, volume string) bool {
	phase := claim.Status.Phase
	return claim.Spec.VolumeName == volume && (phase == corev1.ClaimBound || phase == corev1.ClaimLost)
}

// checkOurs goes on with what was begun, whichever driver the claim names by now.
func checkOurs(s Snapshot) Verdict { // C-12, C-13
	if s.Pending != nil || s.HandedOver || slices.Contains(Asked(s.Claim), s.Driver.Name) {
		return nil
	}
	return idle(verdict.ClaimNotOurs, "the claim is for provisioner "+quoteOrNone(Provisioner(s.Claim)))
}

// checkExisting looks for the PersistentVolume by the very name that this configuration gives it
// (H-5), and does not take a foreign one for ours.
func checkExisting(s Snapshot) Verdict { // C-20
	switch {
	case s.Volume == nil:
		return nil
	case s.Pending != nil && isAnswered(s): // no event said so, since the answer to its creation was lost
		done := provisioned(s.Volume)
		return do{Finding: done.Because(), Actions: []Action{Settle{}}, Then: done}
	case belongsTo(s.Volume, s.Key) && s.Pending == nil:
		return idle(verdict.VolumeExists, "PersistentVolume "+s.Volume.Name+" exists")
	case belongsTo(s.Volume, s.Key):
		return redo(s)
	}
	return refuse{Finding: conflict(s.Volume, "it is not for this claim and this driver")}
}

// checkDeleting does not begin a volume for a claim on its way out (H-42), but finishes one that
// was begun.
func checkDeleting(s Snapshot) Verdict {
	if s.Claim.DeletionTimestamp == nil || s.Pending != nil {
		return nil
	}
	return idle(verdict.ClaimDeleting, "the claim is being deleted")
}

// checkPending repeats a request whose outcome is unknown before anything else is looked at: a
// check that fails now must not make us forget a volume that may exist (H-47), and what is repeated
// must be the same request (C-45, H-7).
func checkPending(s Snapshot) Verdict {
	if !isRepeated(s) {
		return nil
	}
	return redo(s)
}

func checkClass(s Snapshot) Verdict { // C-14, C-21, C-50
	name := ClassName(s.Claim)
	switch {
	case s.Class == nil && name == "":
		return refuse{Finding: verdict.Finding{
			Reason: verdict.ClassMissing, Message: "the claim names no StorageClass",
			Fix: "Set spec.storageClassName, or mark a StorageClass as the default",
		}}
	case s.Class == nil:
		return refuse{Finding: verdict.Finding{
			Reason: verdict.ClassMissing, Message: fmt.Sprintf("StorageClass %q does not exist", name),
			Fix: "Create it; provisioning then goes on by itself",
		}}
	case s.Untranslated != "":
		return refuse{Finding: verdict.Finding{
			Reason: verdict.ClassInvalid, Message: s.Untranslated,
			Fix: fmt.Sprintf("Name a StorageClass whose provisioner is %q", s.Driver.Name),
		}}
	case s.Class.Provisioner != s.Driver.Name:
		return idle(verdict.ClassNotOurs, fmt.Sprintf("StorageClass %q is for provisioner %q", name, s.Class.Provisioner))
	}
	return nil
}

func checkConsumer(s Snapshot) Verdict { // C-15
	if !bindsOnFirstUse(s.Class) || selectedNode(s.Claim) != "" {
		return nil
	}
	return wait{
		Finding: verdict.Finding{
			Reason:  verdict.WaitForConsumer,
			Message: "no pod that uses the claim is scheduled to a node",
		},
	}
}

func checkCapabilities(s Snapshot) Verdict { // C-54
	switch {
	case !s.Driver.Plugin[csi.PluginCapability_Service_CONTROLLER_SERVICE]:
		return lacks(s, "CONTROLLER_SERVICE")
	case !s.Driver.Controller[csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME]:
		return lacks(s, "CREATE_DELETE_VOLUME")
	}
	return nil
}

func lacks(s Snapshot, capability string) Verdict {
	return refuse{Finding: verdict.Finding{
		Reason:  verdict.DriverLacks,
		Message: fmt.Sprintf("CSI driver %q does not have the capability %s", s.Driver.Name, capability),
	}}
}

func settled(reason verdict.Reason, message string) Verdict {
	then := idle(reason, message)
	return do{Finding: then.Because(), Actions: []Action{Settle{}}, Then: then}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Finding{Reason: reason, Message: message}}
}

// Provisioner is the driver that the PV controller chose for the claim. The old key counts only
// when the new one is absent, not when it is empty (AN-2).
func Provisioner(claim *corev1.PersistentVolumeClaim) string {
	if p, ok := claim.Annotations[names.AnnStorageProvisioner]; ok {
		return p
	}
	return claim.Annotations[names.AnnBetaStorageProvisioner]
}

// Asked are the drivers that the claim asks for: the one that was chosen, and the one that took the
// place of an in-tree plugin.
func Asked(claim *corev1.PersistentVolumeClaim) []string {
	asked := []string{Provisioner(claim)}
	if by := claim.Annotations[names.AnnMigratedTo]; by != "" && by != asked[0] {
		asked = append(asked, by)
	}
	return asked
}

// ClassName is the StorageClass of the claim; the old annotation wins over the field (AN-6).
func ClassName(claim *corev1.PersistentVolumeClaim) string {
	return objects.ClaimClass(claim)
}

func bindsOnFirstUse(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

func selectedNode(claim *corev1.PersistentVolumeClaim) string {
	return claim.Annotations[names.AnnSelectedNode]
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func quoteOrNone(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%q", s)
}
