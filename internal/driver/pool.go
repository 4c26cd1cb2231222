package driver

import (
	"context"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Pool returns how to measure the filesystem of a backend for the metrics; nil for a backend
// without one.
func Pool(b backend.Backend) func() (telemetry.PoolState, error) {
	reserved, ok := b.(backend.Reserved)
	if !ok {
		return nil
	}
	return func() (telemetry.PoolState, error) {
		s := telemetry.PoolState{Promised: -1, Promisable: -1}
		found, err := reserved.Reserve().Look()
		if err != nil {
			return s, err
		}
		s.SizeBytes, s.FreeBytes = found.SizeBytes, found.FreeBytes
		s.FreeInodes, s.ReserveBytes = found.FreeInodes, found.ReserveBytes
		if promiser, ok := b.(backend.Promiser); ok {
			s.Promised, s.Promisable, err = promiser.Promised()
		}
		return s, err
	}
}

// Volumes returns how to measure the space that each volume of a backend takes; nil for a backend
// that does not know.
func Volumes(b backend.Backend) func() (map[string]int64, error) {
	reader, ok := b.(backend.SpaceReader)
	if !ok {
		return nil
	}
	return func() (map[string]int64, error) {
		found, err := reader.Space(context.Background())
		all := make(map[string]int64, len(found))
		for id, bytes := range found {
			all[id.String()] = bytes
		}
		return all, err
	}
}
