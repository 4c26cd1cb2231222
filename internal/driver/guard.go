package driver

import "github.com/purser-csi/purser/internal/driver/inflight"

// guarded runs an operation while nothing else runs on its keys. A busy key is
// an error at once: the caller repeats the call anyway, and a queue of calls
// waiting for one that hangs would take the driver down with it.
func guarded[T any](running *inflight.Table, operation string, keys []string, run func() (T, error)) (T, error) {
	release, err := running.Start(operation, keys...)
	if err != nil {
		var none T
		return none, err
	}
	defer release()
	return run()
}
