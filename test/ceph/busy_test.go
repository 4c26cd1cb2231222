package ceph

import (
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// busy repeats a call as a caller does: for as long as the answer is that the
// cluster still works on it.
func busy[T any](t *testing.T, call func() (T, error)) T {
	t.Helper()
	const patience = 2 * time.Minute
	for began := time.Now(); ; {
		result, err := call()
		if err == nil {
			return result
		}
		if !fault.Busy.Is(err) || time.Since(began) > patience {
			t.Fatal(err)
		}
	}
}
