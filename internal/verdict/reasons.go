package verdict

// The list of all reasons. docs/reasons.md has a section for each.

// Reasons about every controller.
const (
	WaitForRetry     Reason = "WaitForRetry"
	WriteFailed      Reason = "WriteFailed"
	HotLoopThrottled Reason = "HotLoopThrottled"
	DecisionsEndless Reason = "DecisionsEndless"
)

// Reasons about the provisioning of a claim.
const (
	ClaimGone                   Reason = "ClaimGone"
	ClaimDeleting               Reason = "ClaimDeleting"
	ClaimBound                  Reason = "ClaimBound"
	ClaimNotOurs                Reason = "ClaimNotOurs"
	WaitForConsumer             Reason = "WaitForConsumer"
	WaitForPreviousLeaderCalls  Reason = "WaitForPreviousLeaderCalls"
	ClassMissing                Reason = "ClassMissing"
	ClassNotOurs                Reason = "ClassNotOurs"
	ClaimInvalid                Reason = "ClaimInvalid"
	ClassInvalid                Reason = "ClassInvalid"
	ClaimTooSmall               Reason = "ClaimTooSmall"
	SecretMissing               Reason = "SecretMissing"
	SecretForbidden             Reason = "SecretForbidden"
	SecretUnfit                 Reason = "SecretUnfit"
	NamespaceForbidden          Reason = "NamespaceForbidden"
	DriverLacks                 Reason = "DriverLacks"
	NodeTopologyUnknown         Reason = "NodeTopologyUnknown"
	Provisioning                Reason = "Provisioning"
	VolumeCreated               Reason = "VolumeCreated"
	VolumeProvisioned           Reason = "VolumeProvisioned"
	VolumeExists                Reason = "VolumeExists"
	VolumeConflict              Reason = "VolumeConflict"
	VolumeRejected              Reason = "VolumeRejected"
	CreateFailed                Reason = "CreateFailed"
	CreateUncertain             Reason = "CreateUncertain"
	CreateInfeasible            Reason = "CreateInfeasible"
	CreateExhausted             Reason = "CreateExhausted"
	CreateResponseInvalid       Reason = "CreateResponseInvalid"
	CleanedUp                   Reason = "CleanedUp"
	CleanupGivenUp              Reason = "CleanupGivenUp"
	Rescheduled                 Reason = "Rescheduled"
	ProvisioningHeldUp          Reason = "ProvisioningHeldUp"
	CreateAttributesMissing     Reason = "CreateAttributesMissing"
	CreateAttributesForbidden   Reason = "CreateAttributesForbidden"
	CreateAttributesOtherDriver Reason = "CreateAttributesOtherDriver"
	TopologyUnknown             Reason = "TopologyUnknown"
)

// Reasons of an instance that works for the volumes of one node.
const (
	ClaimElsewhere Reason = "ClaimElsewhere"
	ClaimContested Reason = "ClaimContested"
	ClaimOwned     Reason = "ClaimOwned"
)

// Reasons of the validator of data sources.
const (
	DataSourceNone         Reason = "DataSourceNone"
	DataSourceKnown        Reason = "DataSourceKnown"
	DataSourceUnrecognized Reason = "DataSourceUnrecognized"
)

// Reasons of a populator, about the claims whose volumes it fills.
const (
	PopulatorIdle             Reason = "PopulatorIdle"
	PopulatorClassAwaited     Reason = "PopulatorClassAwaited"
	PopulatorConsumerAwaited  Reason = "PopulatorConsumerAwaited"
	PopulatorSourceMissing    Reason = "PopulatorSourceMissing"
	PopulatorSourceInvalid    Reason = "PopulatorSourceInvalid"
	PopulatorSourceNotGranted Reason = "PopulatorSourceNotGranted"
	PopulatorNameTaken        Reason = "PopulatorNameTaken"
	PopulatorPrimeCreated     Reason = "PopulatorPrimeCreated"
	PopulatorVolumeAwaited    Reason = "PopulatorVolumeAwaited"
	PopulatorVolumeForeign    Reason = "PopulatorVolumeForeign"
	PopulatorNodeCopied       Reason = "PopulatorNodeCopied"
	PopulatorNodeReturned     Reason = "PopulatorNodeReturned"
	PopulatorCreated          Reason = "PopulatorCreated"
	PopulatorPodPending       Reason = "PopulatorPodPending"
	PopulatorPodEnding        Reason = "PopulatorPodEnding"
	PopulatorRunning          Reason = "PopulatorRunning"
	PopulatorProgress         Reason = "PopulatorProgress"
	PopulatorFailed           Reason = "PopulatorFailed"
	PopulatorRetryAwaited     Reason = "PopulatorRetryAwaited"
	PopulatorRetried          Reason = "PopulatorRetried"
	PopulatorClaimChanged     Reason = "PopulatorClaimChanged"
	PopulatorRebound          Reason = "PopulatorRebound"
	PopulatorBindingAwaited   Reason = "PopulatorBindingAwaited"
	PopulatorFinished         Reason = "PopulatorFinished"
	PopulatorCleaning         Reason = "PopulatorCleaning"
	PopulatorCleanedUp        Reason = "PopulatorCleanedUp"
	PopulatorWriteFailed      Reason = "PopulatorWriteFailed"
)

// Reasons about the source of a claim, and the finalizer that keeps it while volumes are made from
// it.
const (
	SourceForeign        Reason = "SourceForeign"
	SourceNamespaceOff   Reason = "SourceNamespaceOff"
	SourceNotGranted     Reason = "SourceNotGranted"
	SourceMissing        Reason = "SourceMissing"
	SourceForbidden      Reason = "SourceForbidden"
	SourceNotReady       Reason = "SourceNotReady"
	SourceDeleting       Reason = "SourceDeleting"
	SourceOfOtherDriver  Reason = "SourceOfOtherDriver"
	SourceInvalid        Reason = "SourceInvalid"
	SourceLarger         Reason = "SourceLarger"
	SourceModeDiffers    Reason = "SourceModeDiffers"
	SourceUnprotected    Reason = "SourceUnprotected"
	SourceNotOurs        Reason = "SourceNotOurs"
	SourceInUse          Reason = "SourceInUse"
	SourceDeletionAwaits Reason = "SourceDeletionAwaits"
	SourceReleased       Reason = "SourceReleased"
)

// Reasons about the journal of CreateVolume requests.
const (
	JournalFull       Reason = "JournalFull"       // it takes no further entry
	JournalUnreadable Reason = "JournalUnreadable" // the provisioner cannot start
	JournalSkipped    Reason = "JournalSkipped"    // a journal that cannot be read was set aside
)

// Reasons of the publisher of storage capacities.
const (
	CapacityPublished  Reason = "CapacityPublished"
	CapacityNotPlanned Reason = "CapacityNotPlanned"
	CapacityFailed     Reason = "CapacityFailed"
	CapacityUnknown    Reason = "CapacityUnknown"
	CapacityInvalid    Reason = "CapacityInvalid"
)

// Reasons of the binder, about a claim and the volumes that name it.
const (
	ClaimBinding          Reason = "ClaimBinding"
	ClaimPending          Reason = "ClaimPending"
	ClaimLosing           Reason = "ClaimLosing"
	ClaimLost             Reason = "ClaimLost"
	ClaimStaysLost        Reason = "ClaimStaysLost"
	ClaimMarkedBound      Reason = "ClaimMarkedBound"
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
	ReuseKept             Reason = "ReuseKept"
	VolumeSettled         Reason = "VolumeSettled"
	VolumeNotRecycled     Reason = "VolumeNotRecycled"
	VolumeNotDeletable    Reason = "VolumeNotDeletable"
	ReclaimPolicyUnknown  Reason = "ReclaimPolicyUnknown"
)

// Reasons about a volume whose claim is gone.
const (
	VolumeGone             Reason = "VolumeGone"
	VolumeNotOurs          Reason = "VolumeNotOurs"
	VolumeInUse            Reason = "VolumeInUse"
	VolumeProtected        Reason = "VolumeProtected"
	VolumeKept             Reason = "VolumeKept"
	VolumeAttached         Reason = "VolumeAttached"
	VolumeInvalid          Reason = "VolumeInvalid"
	VolumeShared           Reason = "VolumeShared"
	VolumeReclaim          Reason = "VolumeReclaim"
	VolumeReclaimed        Reason = "VolumeReclaimed"
	VolumeAbandoned        Reason = "VolumeAbandoned"
	DeleteFailed           Reason = "DeleteFailed"
	VolumeSecretUnreadable Reason = "VolumeSecretUnreadable"
	DeletionHeldUp         Reason = "DeletionHeldUp"
)

// Reasons about the finalizers that protect claims, volumes and classes from deletion while they
// are in use, and about the condition Unused.
const (
	ClaimProtected             Reason = "ClaimProtected"
	ClaimUsed                  Reason = "ClaimUsed"
	ClaimStillUsed             Reason = "ClaimStillUsed"
	ClaimConfirming            Reason = "ClaimConfirming"
	ClaimUnprotected           Reason = "ClaimUnprotected"
	ClaimBlockedByFinalizers   Reason = "ClaimBlockedByFinalizers"
	VolumeStillUsed            Reason = "VolumeStillUsed"
	VolumeBlockedByFinalizers  Reason = "VolumeBlockedByFinalizers"
	VolumeReclaimAwaited       Reason = "VolumeReclaimAwaited"
	VolumeUnprotected          Reason = "VolumeUnprotected"
	AttributesClassGone        Reason = "AttributesClassGone"
	AttributesClassProtected   Reason = "AttributesClassProtected"
	AttributesClassUsed        Reason = "AttributesClassUsed"
	AttributesClassUnprotected Reason = "AttributesClassUnprotected"
	ClaimUseTracked            Reason = "ClaimUseTracked"
	ClaimUseUntracked          Reason = "ClaimUseUntracked"
)

// Reasons about the ephemeral volumes of pods.
const (
	PodGone          Reason = "PodGone"
	PodEnded         Reason = "PodEnded"
	EphemeralReady   Reason = "EphemeralReady"
	EphemeralCreated Reason = "EphemeralCreated"
	EphemeralTaken   Reason = "EphemeralTaken"
	EphemeralFailed  Reason = "EphemeralFailed"
)

// Reasons of the resizer and of the expand controller: expansion, and the VolumeAttributesClass of
// a volume.
const (
	ModifyStarted      Reason = "ModifyStarted"
	ModifyDone         Reason = "ModifyDone"
	ModifyCanceled     Reason = "ModifyCanceled"
	ModifyClassMissing Reason = "ModifyClassMissing"
	ModifyClassNotOurs Reason = "ModifyClassNotOurs"
	ModifyDriverLacks  Reason = "ModifyDriverLacks"
	ModifyFailed       Reason = "ModifyFailed"
	ModifyRefused      Reason = "ModifyRefused"
	ExpansionNotReady  Reason = "ExpansionNotReady"
	ExpansionAwaited   Reason = "ExpansionAwaited"
	ExpansionMigrated  Reason = "ExpansionMigrated"
	ResizeNotRequested Reason = "ResizeNotRequested"
	ResizeStarted      Reason = "ResizeStarted"
	ResizeDone         Reason = "ResizeDone"
	ResizeNodeRequired Reason = "ResizeNodeRequired"
	ResizeOnNode       Reason = "ResizeOnNode"
	ResizeFailed       Reason = "ResizeFailed"
	ResizeRefused      Reason = "ResizeRefused"
	ResizeSizeInvalid  Reason = "ResizeSizeInvalid"
	ResizeNeedsOffline Reason = "ResizeNeedsOffline"
)

// Reasons of the attach-detach controller.
const (
	AttachNotNeeded   Reason = "AttachNotNeeded"
	AttachRequested   Reason = "AttachRequested"
	AttachSucceeded   Reason = "AttachSucceeded"
	AttachRetried     Reason = "AttachRetried"
	DetachRequested   Reason = "DetachRequested"
	DetachForced      Reason = "DetachForced"
	AttachmentForeign Reason = "AttachmentForeign"
	AttachmentGone    Reason = "AttachmentGone"
)

// Reasons of the attacher. Its ClusterRole has no permission for events (AT-R2), so errors are in
// the status of the VolumeAttachment.
const (
	AttachmentNotOurs     Reason = "AttachmentNotOurs"
	AttachmentDone        Reason = "AttachmentDone"
	AttachmentReleased    Reason = "AttachmentReleased"
	AttachmentNodeAwaited Reason = "AttachmentNodeAwaited"
	AttachmentFailed      Reason = "AttachmentFailed"
	AttachmentHeld        Reason = "AttachmentHeld"
	Attaching             Reason = "Attaching"
	Detaching             Reason = "Detaching"
	VolumeStillAttached   Reason = "VolumeStillAttached"
	VolumeDetached        Reason = "VolumeDetached"
)

// Reasons of the snapshot controller. Those without an event of their own are about
// VolumeGroupSnapshots too.
const (
	SnapshotIdle                Reason = "SnapshotIdle"
	SnapshotAwaitsDriver        Reason = "SnapshotAwaitsDriver"
	SnapshotInGroup             Reason = "SnapshotInGroup"
	SnapshotGroupAlive          Reason = "SnapshotGroupAlive"
	SnapshotStarted             Reason = "SnapshotStarted"
	SnapshotTaken               Reason = "SnapshotTaken"
	SnapshotUsable              Reason = "SnapshotUsable"
	SnapshotClassNotFound       Reason = "SnapshotClassNotFound"
	SnapshotClassUnclear        Reason = "SnapshotClassUnclear"
	SnapshotInvalid             Reason = "SnapshotInvalid"
	SnapshotContentAbsent       Reason = "SnapshotContentAbsent"
	SnapshotNotBoundBack        Reason = "SnapshotNotBoundBack"
	SnapshotContentUnfit        Reason = "SnapshotContentUnfit"
	SnapshotContentTaken        Reason = "SnapshotContentTaken"
	SnapshotContentCreateFailed Reason = "SnapshotContentCreateFailed"
	SnapshotRestoring           Reason = "SnapshotRestoring"
	SnapshotDeleting            Reason = "SnapshotDeleting"
)

// Reasons of the csi-snapshotter, about VolumeSnapshotContents. Those without an event of their own
// are about VolumeGroupSnapshotContents too.
const (
	ContentIdle            Reason = "ContentIdle"
	ContentAwaitsFinalizer Reason = "ContentAwaitsFinalizer"
	ContentAwaitsDeletion  Reason = "ContentAwaitsDeletion"
	ContentCreating        Reason = "ContentCreating"
	ContentPolled          Reason = "ContentPolled"
	ContentDeleting        Reason = "ContentDeleting"
	ContentCreateFailed    Reason = "ContentCreateFailed"
	ContentCheckFailed     Reason = "ContentCheckFailed"
	ContentDeleteFailed    Reason = "ContentDeleteFailed"
	ContentShared          Reason = "ContentShared"
)

// Reasons about VolumeGroupSnapshots and VolumeGroupSnapshotContents, whose events upstream names
// differently.
const (
	GroupStarted             Reason = "GroupStarted"
	GroupTaken               Reason = "GroupTaken"
	GroupUsable              Reason = "GroupUsable"
	GroupClassNotFound       Reason = "GroupClassNotFound"
	GroupClassUnclear        Reason = "GroupClassUnclear"
	GroupInvalid             Reason = "GroupInvalid"
	GroupContentAbsent       Reason = "GroupContentAbsent"
	GroupContentUnfit        Reason = "GroupContentUnfit"
	GroupContentTaken        Reason = "GroupContentTaken"
	GroupContentCreateFailed Reason = "GroupContentCreateFailed"
	GroupContentCallFailed   Reason = "GroupContentCallFailed"
	GroupContentCheckFailed  Reason = "GroupContentCheckFailed"
	GroupContentDeleteFailed Reason = "GroupContentDeleteFailed"
	GroupContentShared       Reason = "GroupContentShared"
	GroupContentHeld         Reason = "GroupContentHeld"
)

// Reasons of the node agent, about volumes and about pods. It emits its events as actions, because
// one step concerns several pods.
const (
	MountClaimAwaited   Reason = "MountClaimAwaited"
	MountUnfit          Reason = "MountUnfit"
	MountDriverAwaited  Reason = "MountDriverAwaited"
	MountTaken          Reason = "MountTaken"
	MountAttachAwaited  Reason = "MountAttachAwaited"
	MountPodSeen        Reason = "MountPodSeen"
	Publishing          Reason = "Publishing"
	Unpublishing        Reason = "Unpublishing"
	Unstaging           Reason = "Unstaging"
	VolumePublished     Reason = "VolumePublished"
	VolumeUnmounted     Reason = "VolumeUnmounted"
	StageFailed         Reason = "StageFailed"
	PublishFailed       Reason = "PublishFailed"
	UnpublishFailed     Reason = "UnpublishFailed"
	UnstageFailed       Reason = "UnstageFailed"
	NodeExpandFailed    Reason = "NodeExpandFailed"
	PodUnmounting       Reason = "PodUnmounting"
	PodUnmounted        Reason = "PodUnmounted"
	PodFinished         Reason = "PodFinished"
	PodMounting         Reason = "PodMounting"
	PodMounted          Reason = "PodMounted"
	PodContainersNotRun Reason = "ContainersNotRun"
)

// Reasons that only `purser explain` gives, about other components.
const (
	WaitsInCircle         Reason = "WaitsInCircle"
	ExplainUnread         Reason = "ExplainUnread"
	BinderSilent          Reason = "BinderSilent"
	ProvisionerSilent     Reason = "ProvisionerSilent"
	PopulatorSilent       Reason = "PopulatorSilent"
	DriverSlow            Reason = "DriverSlow"
	ResizerSilent         Reason = "ResizerSilent"
	ModificationAwaited   Reason = "ModificationAwaited"
	ProtectionSilent      Reason = "ProtectionSilent"
	FinalizerHeld         Reason = "FinalizerHeld"
	PodClaimMissing       Reason = "PodClaimMissing"
	PodClaimDeleting      Reason = "PodClaimDeleting"
	PodStopping           Reason = "PodStopping"
	UnmountFailed         Reason = "UnmountFailed"
	NodeNotReady          Reason = "NodeNotReady"
	SchedulerSilent       Reason = "SchedulerSilent"
	PodUnschedulable      Reason = "PodUnschedulable"
	VolumeUnreachable     Reason = "VolumeUnreachable"
	ClaimUsedByOtherPod   Reason = "ClaimUsedByOtherPod"
	CapacityMissing       Reason = "CapacityMissing"
	AttachLimitReached    Reason = "AttachLimitReached"
	NoVolumeToBind        Reason = "NoVolumeToBind"
	ClassTopologyUnmet    Reason = "ClassTopologyUnmet"
	PreemptionUnderWay    Reason = "PreemptionUnderWay"
	DriverNotRegistered   Reason = "DriverNotRegistered"
	MultiAttach           Reason = "MultiAttach"
	MultiAttachNodeDown   Reason = "MultiAttachNodeDown"
	AttachNotRequested    Reason = "AttachNotRequested"
	AttachNotListed       Reason = "AttachNotListed"
	AttachFailed          Reason = "AttachFailed"
	AttachUnderWay        Reason = "AttachUnderWay"
	AttacherSilent        Reason = "AttacherSilent"
	AttachmentOrphaned    Reason = "AttachmentOrphaned"
	DetachAwaitsUnmount   Reason = "DetachAwaitsUnmount"
	NodeSecretMissing     Reason = "NodeSecretMissing"
	KubeletSilent         Reason = "KubeletSilent"
	MountFailed           Reason = "MountFailed"
	DefaultClassShadowed  Reason = "DefaultClassShadowed"
	SnapshotSourceMissing Reason = "SnapshotSourceMissing"
	SnapshotClassMissing  Reason = "SnapshotClassMissing"
	SnapshotFailed        Reason = "SnapshotFailed"
	SnapshotterSilent     Reason = "SnapshotterSilent"
	SnapshotUnderWay      Reason = "SnapshotUnderWay"
	SnapshotStillUsed     Reason = "SnapshotStillUsed"
	QuotaExceeded         Reason = "QuotaExceeded"
	QuotaUnspecified      Reason = "QuotaUnspecified"
	LimitRangeExceeded    Reason = "LimitRangeExceeded"
	WebhookDenied         Reason = "WebhookDenied"
	WebhookUnreachable    Reason = "WebhookUnreachable"
	PodSecurityRefused    Reason = "PodSecurityRefused"
	RequestRefused        Reason = "RequestRefused"
	ClaimTemplateDiffers  Reason = "ClaimTemplateDiffers"
	ExpansionForbidden    Reason = "ExpansionForbidden"
	ShrinkForbidden       Reason = "ShrinkForbidden"
	ClaimImmutable        Reason = "ClaimImmutable"
	TemplateImmutable     Reason = "TemplateImmutable"
	GroupMemberNotReady   Reason = "GroupMemberNotReady"
	LeaseExpired          Reason = "LeaseExpired"
	JobFailed             Reason = "JobFailed"
	NamespaceTerminating  Reason = "NamespaceTerminating"
	SidecarMissing        Reason = "SidecarMissing"
	WorkloadScaledDown    Reason = "WorkloadScaledDown"
	WorkloadPodsMissing   Reason = "WorkloadPodsMissing"
	WorkloadNotReady      Reason = "WorkloadNotReady"
	NodePluginKeptAway    Reason = "NodePluginKeptAway"
	NodePluginAbsent      Reason = "NodePluginAbsent"
	ServerUnreachable     Reason = "ServerUnreachable"
	StorageUnhealthy      Reason = "StorageUnhealthy"

	PermissionChangeUnderWay Reason = "PermissionChangeUnderWay"
	ContainerCrashes         Reason = "ContainerCrashes"
	ContainerNotStarted      Reason = "ContainerNotStarted"
)

// Reasons about the registration of a driver with a kubelet.
const (
	RegistrationRefused  Reason = "RegistrationRefused"
	RegistrationAccepted Reason = "RegistrationAccepted"
)

// Reasons about the health that a driver reports for its volumes.
const (
	VolumeHealthNotChecked    Reason = "VolumeHealthNotChecked"
	VolumeHealthCheckAwaited  Reason = "VolumeHealthCheckAwaited"
	VolumeHealthCheckFailed   Reason = "VolumeHealthCheckFailed"
	VolumeHealthy             Reason = "VolumeHealthy"
	VolumeHealthAbnormal      Reason = "VolumeHealthAbnormal"
	VolumeHealthFlapping      Reason = "VolumeHealthFlapping"
	VolumeHealthRecovered     Reason = "VolumeHealthRecovered"
	VolumeHealthStatusUnknown Reason = "VolumeHealthStatusUnknown"
)
