package verdict

// upstreamEvent is an event that upstream has, and the reasons that cause it.
type upstreamEvent struct {
	severity Severity
	event    string
	reasons  []Reason
}

// upstreams are the events that upstream has. Tools look for these names (EV-1 to EV-8, RZ-E2,
// SN-X1 to SN-X3).
var upstreams = []upstreamEvent{
	{Normal, "Provisioning", []Reason{Provisioning, SourceForeign}},
	{Normal, "ProvisioningSucceeded", []Reason{VolumeProvisioned}},
	{Warning, "ProvisioningFailed", []Reason{
		JournalFull, ClassMissing, ClaimInvalid, ClassInvalid, ClaimTooSmall, SecretMissing, SecretForbidden,
		SecretUnfit, NamespaceForbidden, DriverLacks, NodeTopologyUnknown, VolumeConflict, VolumeRejected,
		CreateFailed, CreateUncertain, CreateInfeasible, CreateExhausted, CreateResponseInvalid, CleanupGivenUp,
		ProvisioningHeldUp, ClaimMarkedBound, ProvisionerNotAsked, ProvisionerUnknown, VolumeWithoutCapacity,
		SourceNamespaceOff, SourceNotGranted, SourceMissing, SourceForbidden, SourceNotReady, SourceDeleting,
		SourceOfOtherDriver, SourceInvalid, SourceLarger, SourceModeDiffers, CreateAttributesMissing,
		CreateAttributesForbidden, CreateAttributesOtherDriver, TopologyUnknown,
	}},
	{Normal, "VolumeDelete", []Reason{VolumeAttached}},
	{Warning, "VolumeFailedDelete", []Reason{
		VolumeInvalid, VolumeShared, VolumeAbandoned, DeleteFailed, VolumeSecretUnreadable, DeletionHeldUp,
		VolumeNotDeletable,
	}},
	{Normal, "ExternalExpanding", []Reason{ExpansionAwaited, ExpansionMigrated}},
	{Warning, "FailedBinding", []Reason{EphemeralTaken, EphemeralFailed, VolumeTaken}},
	{Normal, "FailedBinding", []Reason{NoVolumeAndNoClass}},
	{Normal, "CreatingGroupSnapshot", []Reason{GroupStarted}},
	{Normal, "GroupSnapshotCreated", []Reason{GroupTaken}},
	{Normal, "GroupSnapshotReady", []Reason{GroupUsable}},
	{Warning, "GetGroupSnapshotClassFailed", []Reason{GroupClassNotFound}},
	{Warning, "SetDefaultGroupSnapshotClassFailed", []Reason{GroupClassUnclear}},
	{Warning, "GroupSnapshotValidationError", []Reason{GroupInvalid}},
	{Warning, "GroupSnapshotContentMissing", []Reason{GroupContentAbsent}},
	{Warning, "GroupSnapshotContentMismatch", []Reason{GroupContentUnfit}},
	{Warning, "GroupSnapshotContentMisbound", []Reason{GroupContentTaken}},
	{Warning, "GroupSnapshotContentCreationFailed", []Reason{GroupContentCreateFailed}},
	{Warning, "GroupSnapshotCreationFailed", []Reason{GroupContentCallFailed}},
	{Warning, "GroupSnapshotContentCheckandUpdateFailed", []Reason{GroupContentCheckFailed}},
	{Warning, "GroupSnapshotDeleteError", []Reason{GroupContentDeleteFailed, GroupContentShared, GroupContentHeld}},
	{Normal, "VolumeModify", []Reason{ModifyStarted}},
	{Normal, "VolumeModifySuccessful", []Reason{ModifyDone}},
	{Normal, "VolumeModifyCanceled", []Reason{ModifyCanceled}},
	{Warning, "VolumeModifyFailed", []Reason{
		ModifyClassMissing, ModifyClassNotOurs, ModifyDriverLacks, ModifyFailed, ModifyRefused,
	}},
	{Warning, "ClaimLost", []Reason{ClaimLost}},
	{Warning, "ClaimMisbound", []Reason{ClaimMisbound}},
	{Warning, "UnrecognizedDataSourceKind", []Reason{DataSourceUnrecognized}},
	{Warning, "VolumeConditionAbnormal", []Reason{VolumeHealthAbnormal, VolumeHealthFlapping}},
	{Normal, "VolumeConditionNormal", []Reason{VolumeHealthRecovered}},
	{Warning, "UnknownVolumeHealthCondition", []Reason{VolumeHealthStatusUnknown}},
	{Normal, "PopulatorCreated", []Reason{PopulatorCreated}},
	{Normal, "PopulatorFinished", []Reason{PopulatorFinished}},
	{Warning, "PopulatorFailed", []Reason{PopulatorFailed}},
	{Warning, "PopulatorCreationError", []Reason{PopulatorSourceInvalid, PopulatorWriteFailed}},
	{Warning, "PopulatorPVCPrimeCreationError", []Reason{PopulatorNameTaken}},
	{Warning, "PopulatorDataSourceNotFound", []Reason{PopulatorSourceMissing}},
	{Normal, "WaitForFirstConsumer", []Reason{WaitForFirstConsumer, SchedulerBypassed}},
	{Normal, "WaitForPodScheduled", []Reason{WaitForPodScheduled}},
	{Normal, "ExternalProvisioning", []Reason{ExternalProvisioning}},
	{Warning, "VolumeMismatch", []Reason{VolumeUnfit}},
	{Warning, "VolumeFailedRecycle", []Reason{VolumeNotRecycled}},
	{Warning, "VolumeUnknownReclaimPolicy", []Reason{ReclaimPolicyUnknown}},
	{Normal, "Resizing", []Reason{ResizeStarted}},
	{Normal, "VolumeResizeSuccessful", []Reason{ResizeDone}},
	{Normal, "FileSystemResizeRequired", []Reason{ResizeNodeRequired}},
	{Warning, "VolumeResizeFailed", []Reason{ResizeFailed, ResizeRefused, ResizeSizeInvalid, ResizeNeedsOffline}},
	{Warning, "SnapshotCreationFailed", []Reason{ContentCreateFailed}},
	{Warning, "SnapshotContentCheckandUpdateFailed", []Reason{ContentCheckFailed}},
	{Warning, "SnapshotDeleteError", []Reason{ContentDeleteFailed, ContentShared}},
	{Warning, "SnapshotDeletePending", []Reason{SnapshotGroupAlive, SnapshotRestoring}},
	{Normal, "CreatingSnapshot", []Reason{SnapshotStarted}},
	{Normal, "SnapshotCreated", []Reason{SnapshotTaken}},
	{Normal, "SnapshotReady", []Reason{SnapshotUsable}},
	{Warning, "GetSnapshotClassFailed", []Reason{SnapshotClassNotFound}},
	{Warning, "SetDefaultSnapshotClassFailed", []Reason{SnapshotClassUnclear}},
	{Warning, "SnapshotValidationError", []Reason{SnapshotInvalid}},
	{Warning, "SnapshotContentMissing", []Reason{SnapshotContentAbsent}},
	{Warning, "SnapshotMisbound", []Reason{SnapshotNotBoundBack}},
	{Warning, "SnapshotContentMismatch", []Reason{SnapshotContentUnfit}},
	{Warning, "SnapshotContentMisbound", []Reason{SnapshotContentTaken}},
	{Warning, "SnapshotContentCreationFailed", []Reason{SnapshotContentCreateFailed}},
}

// Upstream has no event for these reasons. The event has the name of the reason, so that it is not
// mistaken for one of upstream's; docs/differences.md lists them.
var (
	ownNormal = []Reason{
		AttributesClassUsed, ClaimBlockedByFinalizers, ClaimStillUsed, PopulatorNodeReturned, PopulatorProgress,
		RegistrationAccepted, VolumeBlockedByFinalizers, VolumeReleased, VolumeReused, VolumeStillUsed,
	}
	ownWarning = []Reason{
		CapacityInvalid, CapacityUnknown, HotLoopThrottled, JournalSkipped, JournalUnreadable,
		PopulatorSourceNotGranted, PopulatorVolumeForeign, RegistrationRefused, ReuseInvalid, ReuseKept,
	}
)

// OfEvent returns the reason of the decision that an event is about: the decided one, which the event says
// beside its own, if it causes such an event; else the only one that does; empty for several and for none.
func OfEvent(event string, decided Reason) Reason {
	if event != "" && Describe(decided).Event == event {
		return decided
	}
	var only Reason
	for reason, info := range events {
		if info.Event == event {
			if only != "" {
				return ""
			}
			only = reason
		}
	}
	return only
}

// events has the event of each reason that is not silent.
var events = index()

func index() map[Reason]Info {
	all := map[Reason]Info{}
	for _, row := range upstreams {
		for _, r := range row.reasons {
			all[r] = Info{row.severity, row.event}
		}
	}
	for _, r := range ownNormal {
		all[r] = Info{Normal, string(r)}
	}
	for _, r := range ownWarning {
		all[r] = Info{Warning, string(r)}
	}
	return all
}
