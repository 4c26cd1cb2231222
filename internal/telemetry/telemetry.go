package telemetry

// Keys of log lines. Every line of a controller has the object's key and the reason.
const (
	KeyClaim   = "claim"
	KeyVolume  = "volume"
	KeyClass   = "class"
	KeyDriver  = "driver"
	KeyReason  = "reason"
	KeyAttempt = "attempt"
	KeyRetry   = "retryIn"
)
