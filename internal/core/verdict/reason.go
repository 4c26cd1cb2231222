package verdict

import "slices"

// Reason identifies the cause of a verdict. Reasons are stable: they are metric label values,
// fields of machine-readable output and the names of pages in docs/reasons.
type Reason string

// Reasons about a claim.
const (
	ClaimGone                  Reason = "ClaimGone"
	ClaimDeleting              Reason = "ClaimDeleting"
	ClaimBound                 Reason = "ClaimBound"
	ClaimNotOurs               Reason = "ClaimNotOurs"
	WaitForConsumer            Reason = "WaitForConsumer"
	WaitForRetry               Reason = "WaitForRetry"
	WaitForPreviousLeaderCalls Reason = "WaitForPreviousLeaderCalls"
	ClassMissing               Reason = "ClassMissing"
	ClassNotOurs               Reason = "ClassNotOurs"
	ClaimInvalid               Reason = "ClaimInvalid"
	ClassInvalid               Reason = "ClassInvalid"
	ClaimTooSmall              Reason = "ClaimTooSmall"
	SecretMissing              Reason = "SecretMissing"
	SecretForbidden            Reason = "SecretForbidden"
	SecretUnfit                Reason = "SecretUnfit"
	NamespaceForbidden         Reason = "NamespaceForbidden"
	DriverLacks                Reason = "DriverLacks"
	NodeTopologyUnknown        Reason = "NodeTopologyUnknown"
	Provisioning               Reason = "Provisioning"
	VolumeCreated              Reason = "VolumeCreated"
	VolumeProvisioned          Reason = "VolumeProvisioned"
	VolumeExists               Reason = "VolumeExists"
	VolumeConflict             Reason = "VolumeConflict"
	VolumeRejected             Reason = "VolumeRejected"
	CreateFailed               Reason = "CreateFailed"
	CreateUncertain            Reason = "CreateUncertain"
	CreateInfeasible           Reason = "CreateInfeasible"
	CreateExhausted            Reason = "CreateExhausted"
	CreateResponseInvalid      Reason = "CreateResponseInvalid"
	CleanedUp                  Reason = "CleanedUp"
	CleanupGivenUp             Reason = "CleanupGivenUp"
	Rescheduled                Reason = "Rescheduled"
)

// Reasons about a volume.
const (
	VolumeGone      Reason = "VolumeGone"
	VolumeNotOurs   Reason = "VolumeNotOurs"
	VolumeInUse     Reason = "VolumeInUse"
	VolumeProtected Reason = "VolumeProtected"
	VolumeKept      Reason = "VolumeKept"
	VolumeAttached  Reason = "VolumeAttached"
	VolumeInvalid   Reason = "VolumeInvalid"
	VolumeShared    Reason = "VolumeShared"
	VolumeReclaim   Reason = "VolumeReclaim"
	VolumeReclaimed Reason = "VolumeReclaimed"
	VolumeAbandoned Reason = "VolumeAbandoned"
	DeleteFailed    Reason = "DeleteFailed"

	VolumeSecretUnreadable Reason = "VolumeSecretUnreadable"
)

// Reasons about the finalizers that protect claims, volumes and classes from deletion while they
// are in use.
const (
	ClaimProtected            Reason = "ClaimProtected"
	ClaimUsed                 Reason = "ClaimUsed"
	ClaimStillUsed            Reason = "ClaimStillUsed"
	ClaimConfirming           Reason = "ClaimConfirming"
	ClaimUnprotected          Reason = "ClaimUnprotected"
	ClaimBlockedByFinalizers  Reason = "ClaimBlockedByFinalizers"
	VolumeStillUsed           Reason = "VolumeStillUsed"
	VolumeBlockedByFinalizers Reason = "VolumeBlockedByFinalizers"
	VolumeReclaimAwaited      Reason = "VolumeReclaimAwaited"
	VolumeUnprotected         Reason = "VolumeUnprotected"

	AttributesClassGone        Reason = "AttributesClassGone"
	AttributesClassProtected   Reason = "AttributesClassProtected"
	AttributesClassUsed        Reason = "AttributesClassUsed"
	AttributesClassConfirming  Reason = "AttributesClassConfirming"
	AttributesClassUnprotected Reason = "AttributesClassUnprotected"
)

// Reasons about the expansion of claims, and about ephemeral volumes of pods.
const (
	ExpansionNotRequested Reason = "ExpansionNotRequested"
	ExpansionNotReady     Reason = "ExpansionNotReady"
	ExpansionAwaited      Reason = "ExpansionAwaited"
	ExpansionMigrated     Reason = "ExpansionMigrated"
	PodGone               Reason = "PodGone"
	PodEnded              Reason = "PodEnded"
	EphemeralReady        Reason = "EphemeralReady"
	EphemeralCreated      Reason = "EphemeralCreated"
	EphemeralTaken        Reason = "EphemeralTaken"
	EphemeralFailed       Reason = "EphemeralFailed"
)

// WriteFailed means that the API server refused a write or did not answer a read. It is a reason of
// all controllers.
const WriteFailed Reason = "WriteFailed"

// HotLoopThrottled means that a controller has changed the same object in too many successive runs.
// It is a reason of all controllers.
const HotLoopThrottled Reason = "HotLoopThrottled"

// DecisionsEndless means that the decisions about an object did not end, which is a bug in Purser.
// It is a reason of all controllers.
const DecisionsEndless Reason = "DecisionsEndless"

// These take the place of WriteFailed after several failures in a row, and cause an event.
const (
	ProvisioningHeldUp Reason = "ProvisioningHeldUp"
	DeletionHeldUp     Reason = "DeletionHeldUp"
)

// Reasons of the binder, about a claim and the volumes that name it.
const (
	ClaimBinding          Reason = "ClaimBinding"
	ClaimPending          Reason = "ClaimPending"
	ClaimLosing           Reason = "ClaimLosing"
	ClaimLost             Reason = "ClaimLost"
	ClaimStaysLost        Reason = "ClaimStaysLost"
	ClaimMisbound         Reason = "ClaimMisbound"
	ClassAssigned         Reason = "ClassAssigned"
	ClassAwaited          Reason = "ClassAwaited"
	NoVolumeAndNoClass    Reason = "NoVolumeAndNoClass"
	WaitForFirstConsumer  Reason = "WaitForFirstConsumer"
	WaitForPodScheduled   Reason = "WaitForPodScheduled"
	SchedulerBypassed     Reason = "SchedulerBypassed"
	ProvisionerAsked      Reason = "ProvisionerAsked"
	ProvisionerNotAsked   Reason = "ProvisionerNotAsked"
	ExternalProvisioning  Reason = "ExternalProvisioning"
	HandedOver            Reason = "HandedOver"
	ProvisionerUnknown    Reason = "ProvisionerUnknown"
	VolumeAwaited         Reason = "VolumeAwaited"
	VolumeTaken           Reason = "VolumeTaken"
	VolumeUnfit           Reason = "VolumeUnfit"
	VolumeWithoutCapacity Reason = "VolumeWithoutCapacity"
	VolumeAvailable       Reason = "VolumeAvailable"
	VolumeReleased        Reason = "VolumeReleased"
	VolumeReused          Reason = "VolumeReused"
	ReuseInvalid          Reason = "ReuseInvalid"
	VolumeSettled         Reason = "VolumeSettled"
	VolumeNotRecycled     Reason = "VolumeNotRecycled"
	VolumeNotDeletable    Reason = "VolumeNotDeletable"
	ReclaimPolicyUnknown  Reason = "ReclaimPolicyUnknown"
	AskingAPI             Reason = "AskingAPI"
)

// Severity is the type of the event that a reason causes.
type Severity int

const (
	// Silent reasons cause no event.
	Silent Severity = iota
	// Normal reasons report progress.
	Normal
	// Warning reasons need the attention of a user or administrator.
	Warning
)

// Info describes a reason, independent of a particular case.
type Info struct {
	Severity Severity
	Event    string // the event reason: upstream's where upstream has one (EV-1 to EV-8), else the reason itself
	Meaning  string // for docs/reasons
	Check    string // what a reader should check or do, for docs/reasons
}

// Describe returns the description of a reason. An unknown reason is silent.
func Describe(r Reason) Info { return infos[r] }

// All returns every reason in alphabetical order.
func All() []Reason {
	all := make([]Reason, 0, len(infos))
	for r := range infos {
		all = append(all, r)
	}
	slices.Sort(all)
	return all
}

// The event reasons of the external-provisioner and of kube-controller-manager's expand controller.
// Tools look for them.
const (
	eventProvisioning          = "Provisioning"
	eventProvisioningFailed    = "ProvisioningFailed"
	eventProvisioningSucceeded = "ProvisioningSucceeded"
	eventVolumeDelete          = "VolumeDelete"
	eventVolumeFailedDelete    = "VolumeFailedDelete"

	eventExternalExpanding = "ExternalExpanding"
	eventFailedBinding     = "FailedBinding"
)

// The event reasons of the PV controller.
const (
	eventVolumeMismatch       = "VolumeMismatch"
	eventWaitForFirstConsumer = "WaitForFirstConsumer"
	eventWaitForPodScheduled  = "WaitForPodScheduled"
	eventExternalProvisioning = "ExternalProvisioning"
	eventClaimLost            = "ClaimLost"
	eventClaimMisbound        = "ClaimMisbound"
	eventVolumeFailedRecycle  = "VolumeFailedRecycle"
	eventUnknownReclaimPolicy = "VolumeUnknownReclaimPolicy"
)

// upstreams lists the event reasons of upstream, without those of snapshots.
var upstreams = []string{
	eventProvisioning, eventProvisioningFailed, eventProvisioningSucceeded, eventVolumeDelete, eventVolumeFailedDelete,
	eventExternalExpanding,
	eventFailedBinding, eventVolumeMismatch, eventWaitForFirstConsumer, eventWaitForPodScheduled,
	eventExternalProvisioning, eventClaimLost,
	eventClaimMisbound, eventVolumeFailedRecycle, eventUnknownReclaimPolicy, eventResizing, eventVolumeResizeFailed,
	eventVolumeResizeSuccessful,
	eventFileSystemResizeRequired, eventVolumeModify, eventVolumeModifyFailed, eventVolumeModifySuccessful,
	eventVolumeModifyCanceled,
}

// IsUpstreams reports whether upstream has events with this reason.
func IsUpstreams(event string) bool {
	return slices.ContainsFunc([][]string{upstreams, snapshotEvents, groupEvents}, func(events []string) bool {
		return slices.Contains(events, event)
	})
}
