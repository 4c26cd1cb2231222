package verdict

// Reasons of the snapshotter beside the driver. They are about VolumeSnapshotContents.
const (
	ContentIdle            Reason = "ContentIdle"
	ContentAwaitsFinalizer Reason = "ContentAwaitsFinalizer"
	ContentAwaitsDeletion  Reason = "ContentAwaitsDeletion"
	ContentAwaitsRetry     Reason = "ContentAwaitsRetry"
	ContentCreating        Reason = "ContentCreating"
	ContentPolled          Reason = "ContentPolled"
	ContentDeleting        Reason = "ContentDeleting"
	ContentCreateFailed    Reason = "ContentCreateFailed"
	ContentCheckFailed     Reason = "ContentCheckFailed"
	ContentDeleteFailed    Reason = "ContentDeleteFailed"
)

// Reasons of the snapshot controller. They are about VolumeSnapshots.
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

// The event reasons of csi-snapshotter and snapshot-controller (SN-X1, SN-X2).
const (
	eventSnapshotCreationFailed        = "SnapshotCreationFailed"
	eventSnapshotCheckFailed           = "SnapshotContentCheckandUpdateFailed"
	eventSnapshotDeleteError           = "SnapshotDeleteError"
	eventCreatingSnapshot              = "CreatingSnapshot"
	eventSnapshotCreated               = "SnapshotCreated"
	eventSnapshotReady                 = "SnapshotReady"
	eventGetSnapshotClassFailed        = "GetSnapshotClassFailed"
	eventSetDefaultSnapshotClassFailed = "SetDefaultSnapshotClassFailed"
	eventSnapshotValidationError       = "SnapshotValidationError"
	eventSnapshotContentMissing        = "SnapshotContentMissing"
	eventSnapshotMisbound              = "SnapshotMisbound"
	eventSnapshotContentMismatch       = "SnapshotContentMismatch"
	eventSnapshotContentMisbound       = "SnapshotContentMisbound"
	eventSnapshotContentCreationFailed = "SnapshotContentCreationFailed"
	eventSnapshotDeletePending         = "SnapshotDeletePending"
)

var snapshotEvents = []string{
	eventSnapshotCreationFailed, eventSnapshotCheckFailed, eventSnapshotDeleteError, eventCreatingSnapshot,
	eventSnapshotCreated,
	eventSnapshotReady, eventGetSnapshotClassFailed, eventSetDefaultSnapshotClassFailed, eventSnapshotValidationError,
	eventSnapshotContentMissing, eventSnapshotMisbound, eventSnapshotContentMismatch, eventSnapshotContentMisbound,
	eventSnapshotContentCreationFailed, eventSnapshotDeletePending,
}

var snapshotInfos = map[Reason]Info{
	ContentIdle: silent("The VolumeSnapshotContent is as it should be, or another driver serves it.",
		"Nothing to do."),
	ContentAwaitsFinalizer: silent("The driver is asked for the snapshot once the VolumeSnapshotContent has its finalizer, so that no snapshot is lost.",
		"If this lasts, is the snapshot-controller running? It adds the finalizer."),
	ContentAwaitsDeletion: silent("The VolumeSnapshotContent is being deleted while its VolumeSnapshot is not.",
		"Delete the VolumeSnapshot; then the content and, with the policy Delete, the snapshot are deleted."),
	ContentAwaitsRetry: silent("The last call for the VolumeSnapshotContent failed; the next one is due later.",
		"Read the last Warning event of the VolumeSnapshotContent."),
	ContentCreating: silent("The driver is being asked for the snapshot.",
		"If this lasts, the driver has not answered yet: look at its log."),
	ContentPolled: silent("The driver has taken the snapshot and is still processing it. The call is repeated.",
		"Nothing to do; the driver's log says how far it is."),
	ContentDeleting: silent("The snapshot is being deleted, or retained as the policy says, and the VolumeSnapshotContent's finalizer is removed.",
		"Nothing to do."),
	ContentCreateFailed: {
		Warning, eventSnapshotCreationFailed, "The driver failed to take the snapshot. The call is retried with the same name.",
		"The message has the driver's message, or names the class or secret that is missing.",
	},
	ContentCheckFailed: {
		Warning, eventSnapshotCheckFailed, "The driver did not confirm a snapshot that exists already.",
		"The message has the driver's message. Does the snapshot handle exist on the backend?",
	},
	ContentDeleteFailed: {
		Warning, eventSnapshotDeleteError, "The driver failed to delete the snapshot. The call is retried.",
		"The message has the driver's message, or names the secret that cannot be read.",
	},

	SnapshotIdle: silent("The VolumeSnapshot is as it should be.",
		"Nothing to do."),
	SnapshotAwaitsDriver: silent("The VolumeSnapshotContent exists, and the driver's csi-snapshotter takes the snapshot.",
		"If this lasts, read the events of the VolumeSnapshotContent and the log of the csi-snapshotter."),
	SnapshotInGroup: silent("The VolumeSnapshot belongs to a VolumeGroupSnapshot and waits for it.",
		"If this lasts, read the events of the group. Are its kinds served, and is the gate CSIVolumeGroupSnapshot on?"),
	SnapshotGroupAlive: {
		Warning, eventSnapshotDeletePending, "The VolumeSnapshot is being deleted while its VolumeGroupSnapshot is not.",
		"It is deleted with its group: delete the VolumeGroupSnapshot.",
	},
	SnapshotStarted: {
		Normal, eventCreatingSnapshot, "The VolumeSnapshotContent is being created; the driver's csi-snapshotter then takes the snapshot.",
		"If this stays the last event for long, read the events of the VolumeSnapshotContent.",
	},
	SnapshotTaken: {
		Normal, eventSnapshotCreated, "The driver has taken the snapshot.",
		"Nothing to do.",
	},
	SnapshotUsable: {
		Normal, eventSnapshotReady, "The snapshot can be restored.",
		"Nothing to do.",
	},
	SnapshotClassNotFound: {
		Warning, eventGetSnapshotClassFailed, "The VolumeSnapshotClass that the VolumeSnapshot names does not exist.",
		"Create the class; the snapshot then continues by itself.",
	},
	SnapshotClassUnclear: {
		Warning, eventSetDefaultSnapshotClassFailed, "The VolumeSnapshot names no class, and there is not exactly one default class for the driver of its volume.",
		"Name a class in the VolumeSnapshot, or annotate exactly one class of the driver as default.",
	},
	SnapshotInvalid: {
		Warning, eventSnapshotValidationError, "The VolumeSnapshot names no source, or two.",
		"Create it again with exactly one of persistentVolumeClaimName and volumeSnapshotContentName.",
	},
	SnapshotContentAbsent: {
		Warning, eventSnapshotContentMissing, "The VolumeSnapshotContent of the VolumeSnapshot does not exist.",
		"For a pre-provisioned VolumeSnapshot, create the content that it names. If the VolumeSnapshot was bound, its snapshot is lost or was deleted.",
	},
	SnapshotNotBoundBack: {
		Warning, eventSnapshotMisbound, "The VolumeSnapshotContent that the VolumeSnapshot is bound to belongs to another VolumeSnapshot.",
		"The message names both. Delete the VolumeSnapshot.",
	},
	SnapshotContentUnfit: {
		Warning, eventSnapshotContentMismatch, "The VolumeSnapshotContent is of the wrong kind: for a new snapshot of a volume although the VolumeSnapshot is pre-provisioned, or the reverse.",
		"Name a content with a snapshotHandle in a pre-provisioned VolumeSnapshot.",
	},
	SnapshotContentTaken: {
		Warning, eventSnapshotContentMisbound, "The VolumeSnapshotContent refers to another VolumeSnapshot.",
		"Make spec.volumeSnapshotRef of the content name this VolumeSnapshot, without a uid.",
	},
	SnapshotContentCreateFailed: {
		Warning, eventSnapshotContentCreationFailed, "The VolumeSnapshotContent could not be created.",
		"The message names the claim, volume, class or secret that prevents it. It is retried.",
	},
	SnapshotRestoring: {
		Warning, eventSnapshotDeletePending, "The VolumeSnapshot is being deleted while a claim is being restored from it.",
		"It is deleted when the claim in the message is bound or deleted.",
	},
	SnapshotDeleting: silent("The VolumeSnapshot is being deleted; its finalizers are removed when its content is gone or retained.",
		"If this lasts, read the events of the VolumeSnapshotContent."),
}
