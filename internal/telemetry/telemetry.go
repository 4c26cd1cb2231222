package telemetry

// Keys of log lines. Every line of a controller has the object's key and the reason.
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
	KeySize                 = "size" // that the claim asks for
	KeyCode                 = "code" // gRPC code of the driver's answer
	KeyReason               = "reason"
	KeyAttempt              = "attempt"
	KeyRetry                = "retryIn"
)
