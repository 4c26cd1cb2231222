package provision

import (
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/secretref"
	"github.com/purser-csi/purser/internal/verdict"
)

// check is one rule. It returns nil when the rule does not apply, and the next one is checked.
type check func(Snapshot) Verdict

// checks are in order: the first verdict is the one that users see (C-10 to C-16, C-50 to C-64).
var checks = []check{
	checkCached,
	checkGone,
	checkBound,
	checkOurs,
	checkExisting,
	checkDeleting,
	checkMarkedBound,
	checkRepeatedInputs,
	checkPending,
	checkClass,
	checkNode,
	checkConsumer,
	checkSource,
	checkCapabilities,
	checkSourceCapabilities,
	checkAttributesCapability,
	checkInputs,
}

// Decide returns what to do for a claim. now is compared only with the times in the snapshot.
func Decide(s Snapshot, now time.Time) Verdict {
	s.now = now
	v, made := decide(s)
	if _, asks := v.(verdict.Read[Action]); asks {
		return v
	}
	if s.Pending != nil && now.Before(s.Pending.CallsEnd) && (mayDelete(s, v) || isRacing(s, v)) {
		return untilCallsEnd(s)
	}
	if _, acts := v.(do); acts && now.Before(s.Retry.NotBefore) && unchanged(s, made) {
		return wait{
			Finding: verdict.Because(verdict.WaitForRetry, "the last attempt failed, the next one is not due yet"),
			Until:   nextCheck(s, now),
		}
	}
	return recheckUntilCached(s, v, now)
}

// volumeRecheck is the requeue interval while the informer cache does not have the volume: no event
// would show its deletion.
const volumeRecheck = 30 * time.Second

// recheckUntilCached requeues a finished claim until the informer cache has its volume.
func recheckUntilCached(s Snapshot, v Verdict, now time.Time) Verdict {
	if !s.VolumeUnseen {
		return v
	}
	switch v := v.(type) {
	case nothing:
		return wait{Finding: v.Finding, Until: now.Add(volumeRecheck)}
	case do:
		v.Then = recheckUntilCached(s, v.Then, now)
		return v
	}
	return v
}

// The requeue intervals of a waiting claim with a secret, or with a source or
// VolumeAttributesClass: upstream's role may get these objects and not watch them.
const (
	secretRecheck = 30 * time.Second
	sourceRecheck = 10 * time.Second
	// SharedFor is how long claims that wait for one object share a read of it that none of them can go
	// on with.
	SharedFor = sourceRecheck
	// longestRecheck bounds the interval of an old claim.
	longestRecheck = 5 * time.Minute
)

// recheckInterval returns how often the unwatched inputs of a waiting claim are read; 0 for never. It
// grows to a tenth of the claim's age: users create as many claims as they like, and each one that
// waits for ever would otherwise cost the API server the same for ever.
func recheckInterval(s Snapshot) time.Duration {
	switch {
	case !s.Source.Ref.IsNone() || attributesClass(s) != "":
		return stretched(sourceRecheck, s)
	case s.Secret.Access == Readable:
		return stretched(secretRecheck, s)
	}
	return 0
}

func stretched(interval time.Duration, s Snapshot) time.Duration {
	if s.Claim == nil || s.now.IsZero() || s.Claim.CreationTimestamp.IsZero() {
		return interval
	}
	return min(max(interval, s.now.Sub(s.Claim.CreationTimestamp.Time)/10), longestRecheck)
}

// nextCheck returns when a claim in backoff is requeued: when its retry is due, or earlier to read
// the unwatched inputs (H-43).
func nextCheck(s Snapshot, now time.Time) time.Time {
	after := recheckInterval(s)
	if look := now.Add(after); after > 0 && look.Before(s.Retry.NotBefore) {
		return look
	}
	return s.Retry.NotBefore
}

// decide returns the verdict, and the request if one was built for it.
func decide(s Snapshot) (Verdict, *draft) {
	for _, c := range checks {
		if v := c(s); v != nil {
			return v, nil
		}
	}
	made := newDraft(s)
	finding := made.finding
	if finding == nil {
		finding = checkNamespace(s)
	}
	if finding == nil {
		secret := made.entry.Secrets.Of(secretref.Provisioner)
		if v := askSecret(s, secret); v != nil {
			return v, made
		}
		finding = checkSecret(s, secret)
	}
	switch {
	case finding == nil:
		return create(s, made.entry, protect(s)...), made
	case finding.Reason == verdict.NodeTopologyUnknown && (isNodeGone(s) || s.Retry.Failed >= failuresBeforeReschedule):
		return reschedule(s, *finding), made
	}
	return refuse{Finding: *finding, Look: recheckInterval(s)}, made
}

// failuresBeforeReschedule is the number of failed attempts in a row after which a selected node
// without topology, or without the driver, is given back to the scheduler. With the flags' default
// delays that is four minutes (H-9, U-15).
const failuresBeforeReschedule = 8

// isNodeGone reports whether the selected node, or its CSINode, does not exist (C-61, C-104, H-8,
// 8.19). A CSINode without this driver is different: the driver may be about to register.
func isNodeGone(s Snapshot) bool { return s.Node == nil || s.CSINode == nil }

// reschedule removes the selected node: the scheduler keeps it as long as the claim names it.
func reschedule(s Snapshot, f verdict.Finding, before ...Action) Verdict {
	f.Message += fmt.Sprintf(
		"; the selection of node %q is removed, so that the scheduler selects again", selectedNode(s.Claim),
	)
	return do{
		Finding: f, Actions: append(before, Reschedule{s.Claim}),
		Then: idle(verdict.Rescheduled, "the node selection was taken back"),
	}
}

// draft is the journal entry of a new request, or why there is none. A decision builds it once.
type draft struct {
	entry   intent.Entry
	finding *verdict.Finding // nil for an entry
}

func newDraft(s Snapshot) *draft {
	request, secrets, finding := build(s)
	if finding != nil {
		return &draft{finding: finding}
	}
	return &draft{entry: intent.Entry{
		Claim:      s.Key.NamespacedName,
		UID:        s.Key.UID,
		VolumeName: request.GetName(),
		Request:    request,
		Secrets:    secrets,
	}}
}

// create writes the journal entry before it calls CreateVolume. After a crash, an entry without a
// volume costs one call; a volume without an entry is leaked (H-1).
func create(s Snapshot, e intent.Entry, before ...Action) Verdict {
	return do{
		Finding: verdict.Finding{
			Reason: verdict.Provisioning,
			// EV-1
			Message: fmt.Sprintf("External provisioner is provisioning volume for claim %q", s.Key.NamespacedName),
		},
		Actions: append(before, Record{e}, CreateVolume{Request: e.Request, Secrets: e.Secrets}),
	}
}

// checkGone resolves the entry of a claim that does not exist any more. CreateVolume is repeated to
// learn the handle, and the returned volume is deleted (C-91, H-1). If the PersistentVolume exists,
// the call had succeeded and the reclaim controller owns the rest. A PersistentVolume of another
// driver proves nothing: the class may have been created again for that driver.
func checkGone(s Snapshot) Verdict {
	switch {
	case s.Claim != nil:
		return nil
	case s.Pending == nil:
		return idle(verdict.ClaimGone, "the claim does not exist")
	case isAnswered(s):
		return resolved(verdict.ClaimGone, "the claim does not exist, and its volume has a PersistentVolume")
	}
	return repeatOrDiscard(s)
}

func checkBound(s Snapshot) Verdict { // C-11
	if s.Claim.Spec.VolumeName == "" {
		return nil
	}
	switch {
	case s.Pending == nil:
		return idle(verdict.ClaimBound, "the claim names its volume: "+s.Claim.Spec.VolumeName)
	case isAnswered(s), s.Volume == nil && wasBound(s.Claim, s.Pending.VolumeName):
		return resolved(verdict.ClaimBound, "the claim is bound to its volume")
	}
	return repeatOrDiscard(s)
}

// wasBound reports whether the PersistentVolume of the request was written and does not exist any
// more: a claim binds only to a PV that exists. An administrator has deleted it by force and keeps
// the data.
func wasBound(claim *corev1.PersistentVolumeClaim, volume string) bool {
	phase := claim.Status.Phase
	return claim.Spec.VolumeName == volume && (phase == corev1.ClaimBound || phase == corev1.ClaimLost)
}

// checkOurs lets a claim with a journal entry continue, whichever driver it names by now.
func checkOurs(s Snapshot) Verdict { // C-12, C-13
	if s.Pending != nil || s.HandedOver || slices.Contains(RequestedDrivers(s.Claim), s.Driver.Name) {
		return nil
	}
	return idle(verdict.ClaimNotOurs, "the claim is for provisioner "+quoteOrNone(Provisioner(s.Claim)))
}

// checkExisting looks up the PersistentVolume by the exact name of this configuration (H-5). A PV
// of another claim or driver is a conflict.
func checkExisting(s Snapshot) Verdict { // C-20
	switch {
	case s.Volume == nil:
		return nil
	case s.Pending != nil && isAnswered(s): // the response of its create was lost, so no event was emitted
		done := provisioned(s.Volume)
		return do{Finding: done.Because(), Actions: []Action{Resolve{}}, Then: done}
	case belongsTo(s.Volume, s.Key) && s.Pending == nil:
		return idle(verdict.VolumeExists, "PersistentVolume "+s.Volume.Name+" exists")
	case belongsTo(s.Volume, s.Key):
		return repeatOrDiscard(s)
	}
	return refuse{Finding: conflict(s.Volume, "it is not for this claim and this driver")}
}

// checkDeleting starts no volume for a terminating claim (H-42). One that was started is finished.
func checkDeleting(s Snapshot) Verdict {
	if s.Claim.DeletionTimestamp == nil || s.Pending != nil {
		return nil
	}
	return idle(verdict.ClaimDeleting, "the claim is being deleted")
}

// checkMarkedBound starts no volume for a claim that no binder would bind to it: it would be leaked
// until the claim is deleted.
func checkMarkedBound(s Snapshot) Verdict {
	if !objects.IsBoundWithoutVolume(s.Claim) || s.Pending != nil {
		return nil
	}
	return wait{Finding: verdict.Because(
		verdict.ClaimMarkedBound,
		"The claim counts as bound and names no PersistentVolume, so it gets none. %s",
		objects.AboutBindCompleted(s.Claim),
	)}
}

// checkPending repeats a request with an unknown outcome before any other check: a check that fails
// now must not drop a volume that may exist (H-47). The request is repeated unchanged (C-45, H-7).
func checkPending(s Snapshot) Verdict {
	if !isRepeated(s) {
		return nil
	}
	return repeatOrDiscard(s)
}

func checkClass(s Snapshot) Verdict { // C-14, C-21, C-50
	name := objects.ClaimClass(s.Claim)
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
		return idle(verdict.ClassNotOurs, fmt.Sprintf(
			"StorageClass %q is for provisioner %q", name, s.Class.Provisioner,
		))
	}
	return nil
}

func checkConsumer(s Snapshot) Verdict { // C-15
	if !bindsOnFirstUse(s.Class) || selectedNode(s.Claim) != "" {
		return nil
	}
	return wait{Finding: verdict.Because(verdict.WaitForConsumer, "no pod that uses the claim is scheduled to a node")}
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
	return refuse{Finding: verdict.Because(
		verdict.DriverLacks, "CSI driver %q does not have the capability %s", s.Driver.Name, capability,
	)}
}

func resolved(reason verdict.Reason, message string) Verdict {
	then := idle(reason, message)
	return do{Finding: then.Because(), Actions: []Action{Resolve{}}, Then: then}
}

func idle(reason verdict.Reason, message string) Verdict {
	return nothing{Finding: verdict.Because(reason, "%s", message)}
}

// Provisioner returns the driver that the PV controller chose for the claim. The beta annotation is
// read only if the GA one is absent, not if it is empty (AN-2).
func Provisioner(claim *corev1.PersistentVolumeClaim) string {
	if p, ok := claim.Annotations[names.AnnStorageProvisioner]; ok {
		return p
	}
	return claim.Annotations[names.AnnBetaStorageProvisioner]
}

// RequestedDrivers returns the drivers that the claim's annotations name: the chosen provisioner,
// and the CSI driver that replaces an in-tree plugin.
func RequestedDrivers(claim *corev1.PersistentVolumeClaim) []string {
	asked := []string{Provisioner(claim)}
	if by := claim.Annotations[names.AnnMigratedTo]; by != "" && by != asked[0] {
		asked = append(asked, by)
	}
	return asked
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
