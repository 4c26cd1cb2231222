package verdict

// Reasons of the snapshot controller about VolumeGroupSnapshots.
const (
	GroupIdle                Reason = "GroupIdle"
	GroupAwaitsDriver        Reason = "GroupAwaitsDriver"
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
	GroupRestoring           Reason = "GroupRestoring"
	GroupDeleting            Reason = "GroupDeleting"
)

// Reasons of the snapshotter beside the driver about VolumeGroupSnapshotContents.
const (
	GroupContentIdle           Reason = "GroupContentIdle"
	GroupContentAwaits         Reason = "GroupContentAwaits"
	GroupContentAwaitsDeletion Reason = "GroupContentAwaitsDeletion"
	GroupContentAwaitsRetry    Reason = "GroupContentAwaitsRetry"
	GroupContentCreating       Reason = "GroupContentCreating"
	GroupContentPolled         Reason = "GroupContentPolled"
	GroupContentDeleting       Reason = "GroupContentDeleting"
	GroupContentCallFailed     Reason = "GroupContentCallFailed"
	GroupContentCheckFailed    Reason = "GroupContentCheckFailed"
	GroupContentDeleteFailed   Reason = "GroupContentDeleteFailed"
)

// The event reasons about groups (SN-X3).
const (
	eventCreatingGroupSnapshot              = "CreatingGroupSnapshot"
	eventGroupSnapshotCreated               = "GroupSnapshotCreated"
	eventGroupSnapshotReady                 = "GroupSnapshotReady"
	eventGetGroupSnapshotClassFailed        = "GetGroupSnapshotClassFailed"
	eventSetDefaultGroupSnapshotClassFailed = "SetDefaultGroupSnapshotClassFailed"
	eventGroupSnapshotValidationError       = "GroupSnapshotValidationError"
	eventGroupSnapshotContentMissing        = "GroupSnapshotContentMissing"
	eventGroupSnapshotContentMismatch       = "GroupSnapshotContentMismatch"
	eventGroupSnapshotContentMisbound       = "GroupSnapshotContentMisbound"
	eventGroupSnapshotContentCreationFailed = "GroupSnapshotContentCreationFailed"
	eventGroupSnapshotCreationFailed        = "GroupSnapshotCreationFailed"
	eventGroupSnapshotCheckFailed           = "GroupSnapshotContentCheckandUpdateFailed"
	eventGroupSnapshotDeleteError           = "GroupSnapshotDeleteError"
)

var groupEvents = []string{
	eventCreatingGroupSnapshot, eventGroupSnapshotCreated, eventGroupSnapshotReady, eventGetGroupSnapshotClassFailed,
	eventSetDefaultGroupSnapshotClassFailed, eventGroupSnapshotValidationError, eventGroupSnapshotContentMissing,
	eventGroupSnapshotContentMismatch, eventGroupSnapshotContentMisbound, eventGroupSnapshotContentCreationFailed,
	eventGroupSnapshotCreationFailed, eventGroupSnapshotCheckFailed, eventGroupSnapshotDeleteError,
}

var groupSnapshotInfos = map[Reason]Info{
	GroupIdle: silent("The VolumeGroupSnapshot is as it should be.", "Nothing to do."),
	GroupAwaitsDriver: silent("The VolumeGroupSnapshotContent exists, and the driver's csi-snapshotter takes the snapshots.",
		"If this lasts, read the events of the VolumeGroupSnapshotContent and the log of the csi-snapshotter."),
	GroupStarted: {
		Normal, eventCreatingGroupSnapshot, "The VolumeGroupSnapshotContent is being created; the driver's csi-snapshotter then takes the snapshots.",
		"If this stays the last event for long, read the events of the VolumeGroupSnapshotContent.",
	},
	GroupTaken: {
		Normal, eventGroupSnapshotCreated, "The driver has taken the snapshots of the group.", "Nothing to do.",
	},
	GroupUsable: {
		Normal, eventGroupSnapshotReady, "All snapshots of the group can be restored.", "Nothing to do.",
	},
	GroupClassNotFound: {
		Warning, eventGetGroupSnapshotClassFailed, "The VolumeGroupSnapshotClass that the VolumeGroupSnapshot names does not exist.",
		"Create the class; the group then continues by itself.",
	},
	GroupClassUnclear: {
		Warning, eventSetDefaultGroupSnapshotClassFailed,
		"The VolumeGroupSnapshot names no class, and there is not exactly one default class for the driver of its volumes.",
		"Name a class, or annotate exactly one VolumeGroupSnapshotClass of the driver as default.",
	},
	GroupInvalid: {
		Warning, eventGroupSnapshotValidationError, "The VolumeGroupSnapshot names no source, or two, or its selector selects everything or is not valid.",
		"Create it again with a selector that has labels or expressions, or with a content.",
	},
	GroupContentAbsent: {
		Warning, eventGroupSnapshotContentMissing, "The VolumeGroupSnapshotContent of the VolumeGroupSnapshot does not exist.",
		"For a pre-provisioned group, create the content that it names. If the group was bound, its snapshots are lost or were deleted.",
	},
	GroupContentUnfit: {
		Warning, eventGroupSnapshotContentMismatch, "The VolumeGroupSnapshotContent is of the wrong kind: for new snapshots of volumes although the group is pre-provisioned, or the reverse.",
		"Name a content with groupSnapshotHandles in a pre-provisioned group.",
	},
	GroupContentTaken: {
		Warning, eventGroupSnapshotContentMisbound, "The VolumeGroupSnapshotContent refers to another VolumeGroupSnapshot.",
		"Make spec.volumeGroupSnapshotRef of the content name this group, without a uid.",
	},
	GroupContentCreateFailed: {
		Warning, eventGroupSnapshotContentCreationFailed, "The VolumeGroupSnapshotContent could not be created.",
		"The message names the claim, volume, class or secret that prevents it. It is retried.",
	},
	GroupRestoring: {
		Warning, eventSnapshotDeletePending, "The VolumeGroupSnapshot is being deleted while a claim is being restored from a member.",
		"It is deleted when the claim in the message is bound or deleted.",
	},
	GroupDeleting: silent("The VolumeGroupSnapshot is being deleted; its finalizer is removed when its content is gone or retained.",
		"If this lasts, read the events of the VolumeGroupSnapshotContent and of the members."),

	GroupContentIdle: silent("The VolumeGroupSnapshotContent is as it should be, or another driver serves it.", "Nothing to do."),
	GroupContentAwaits: silent("The driver is asked for the group once the VolumeGroupSnapshotContent has its finalizer and the uid of its group, so that no group snapshot is leaked.",
		"If this lasts, is the snapshot-controller running? It adds both."),
	GroupContentAwaitsDeletion: silent("The VolumeGroupSnapshotContent is being deleted while its VolumeGroupSnapshot is not.",
		"Delete the VolumeGroupSnapshot; then the content and, with the policy Delete, the snapshots are deleted."),
	GroupContentAwaitsRetry: silent("The last call for the VolumeGroupSnapshotContent failed; the next one is due later.",
		"Read the last Warning event of the VolumeGroupSnapshotContent."),
	GroupContentCreating: silent("The driver is being asked for the group.",
		"If this lasts, the driver has not answered yet: look at its log."),
	GroupContentPolled: silent("The driver has taken the snapshots of the group and is still processing them. The call is repeated.",
		"Nothing to do; the driver's log says how far it is."),
	GroupContentDeleting: silent("The group is being deleted, or retained as the policy says, and the VolumeGroupSnapshotContent's finalizer is removed.",
		"Nothing to do."),
	GroupContentCallFailed: {
		Warning, eventGroupSnapshotCreationFailed, "The driver failed to take the group. The call is retried with the same name.",
		"The message has the driver's message, or names the class or secret that is missing.",
	},
	GroupContentCheckFailed: {
		Warning, eventGroupSnapshotCheckFailed, "The driver did not confirm a group that exists already.",
		"The message has the driver's message. Does the handle exist on the backend?",
	},
	GroupContentDeleteFailed: {
		Warning, eventGroupSnapshotDeleteError, "The driver failed to delete the group. The call is retried.",
		"The message has the driver's message, or names the secret that cannot be read.",
	},
}
