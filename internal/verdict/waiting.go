package verdict

// waitsLong has the reasons of waits that are normal for hours, and why no event says them.
var waitsLong = map[Reason]string{
	WaitForConsumer:     "The binder says on the claim what it waits for, as upstream does.",
	HandedOver:          "The provisioner of the same process emits the events of the claim.",
	ClaimStaysLost:      "The event ClaimLost said it when the claim was lost.",
	VolumeInUse:         "This is the normal state of a volume.",
	VolumeStillAttached: "This is the normal state of a volume in use.",
	SourceInUse:         "This is the normal state of a source.",
	SnapshotInGroup:     "The group says on the VolumeGroupSnapshot what it waits for.",
	ResizeOnNode: "The event FileSystemResizeRequired of the claim said it, as upstream does; no pod may " +
		"use the claim.",
	ContentAwaitsDeletion: "The content is kept on purpose until its VolumeSnapshot or VolumeGroupSnapshot is deleted.",
	AttachmentForeign: "Another program attached the volume and detaches it; a pod that needs it elsewhere has " +
		"an event about the conflict.",
	ClaimUseTracked:          "This is the normal state of a claim.",
	PodMounted:               "This is the normal state of a pod.",
	MountClaimAwaited:        "The event FailedMount of the pod says it.",
	StageFailed:              "The event FailedMount or FailedMapVolume of the pod says it.",
	PopulatorConsumerAwaited: "The binder says on the claim what it waits for, as upstream does.",
	PopulatorRunning:         "The event PopulatorCreated said it, and PopulatorProgress says how far it is.",
	PopulatorSourceMissing:   "The event PopulatorDataSourceNotFound says it.",
	PopulatorSourceInvalid:   "The event PopulatorCreationError says it.",
	PopulatorRetryAwaited:    "The event PopulatorFailed says it.",
	PublishFailed:            "The event FailedMount or FailedMapVolume of the pod says it.",
}

// WaitsLong returns why a wait for this reason is normal for long and is not said in an event; empty
// if it is not.
func WaitsLong(r Reason) string { return waitsLong[r] }

// IsBackoff reports whether a reason says only that the next attempt is due later. What the last
// attempt failed for goes on meanwhile.
func IsBackoff(r Reason) bool { return r == WaitForRetry }
