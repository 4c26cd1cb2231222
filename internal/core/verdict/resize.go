package verdict

// Reasons of the resizer.
const (
	ResizeNotRequested Reason = "ResizeNotRequested"
	ResizeStarted      Reason = "ResizeStarted"
	ResizeDone         Reason = "ResizeDone"
	ResizeNodeRequired Reason = "ResizeNodeRequired"
	ResizeOnNode       Reason = "ResizeOnNode"
	ResizeFailed       Reason = "ResizeFailed"
	ResizeRefused      Reason = "ResizeRefused"
	ResizeNeedsOffline Reason = "ResizeNeedsOffline"
	ResizeAwaitsRetry  Reason = "ResizeAwaitsRetry"
)

// The event reasons of external-resizer (RZ-E2).
const (
	eventResizing                 = "Resizing"
	eventVolumeResizeFailed       = "VolumeResizeFailed"
	eventVolumeResizeSuccessful   = "VolumeResizeSuccessful"
	eventFileSystemResizeRequired = "FileSystemResizeRequired"
)

var resizeInfos = map[Reason]Info{
	ResizeNotRequested: silent("The claim has the size that it asks for, or another driver serves its volume.",
		"Nothing to do."),
	ResizeStarted: {
		Normal, eventResizing, "The driver is being asked to expand the volume.",
		"If this stays the last event for long, the driver has not answered yet: look at its log.",
	},
	ResizeDone: {
		Normal, eventVolumeResizeSuccessful, "The volume has the new size, and no node has to expand a filesystem.",
		"Nothing to do.",
	},
	ResizeNodeRequired: {
		Normal, eventFileSystemResizeRequired, "The volume is larger; its filesystem is expanded on the node where it is mounted.",
		"Start a pod that uses the claim if none runs.",
	},
	ResizeOnNode: silent("The volume is larger, and the node has to expand its filesystem.",
		"Start a pod that uses the claim if none runs; else read the kubelet's events about it."),
	ResizeFailed: {
		Warning, eventVolumeResizeFailed, "The driver failed to expand the volume. It is retried.",
		"The message has the driver's message. After an uncertain error the same size is tried until the driver gives a final response.",
	},
	ResizeRefused: {
		Warning, eventVolumeResizeFailed, "The driver refuses this size with a final error.",
		"Ask for a smaller size that is still more than the volume has; it is tried at once.",
	},
	ResizeAwaitsRetry: silent("The last attempt to expand the volume failed; the next one is due later. Another size is tried at once.",
		"Read the VolumeResizeFailed event of the claim."),
	ResizeNeedsOffline: {
		Warning, eventVolumeResizeFailed, "The driver expands a volume only while no pod uses it.",
		"Stop the pods that the message names; the expansion continues when they are gone.",
	},
}
