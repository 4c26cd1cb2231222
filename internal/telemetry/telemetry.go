package telemetry

// Keys of log lines. Each line of a controller has the key of its object and the reason.
const (
	KeyClaim                = "claim"
	KeyVolume               = "volume"
	KeySource               = "source"
	KeySnapshot             = "snapshot"
	KeySnapshotContent      = "snapshotContent"
	KeyGroupSnapshot        = "groupSnapshot"
	KeyGroupSnapshotContent = "groupSnapshotContent"
	KeyClass                = "class"
	KeyPod                  = "pod"
	KeyAttributes           = "attributesClass"
	KeyDriver               = "driver"
	KeyNode                 = "node"
	KeySegment              = "segment"
	KeySize                 = "size" // requested by the claim
	KeyCode                 = "code" // gRPC code of the driver's response
	KeyReason               = "reason"
	KeyAttempt              = "attempt"
	KeyRetry                = "retryIn"
)
