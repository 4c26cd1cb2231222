package driver

import (
	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/records"
)

// This file is the table "second NodePublishVolume on the same volume on the
// same node" of the CSI spec, in its version for drivers with
// SINGLE_NODE_MULTI_WRITER. Both functions are pure.

// mayRepeat decides the columns T1=T2: the target shows something already.
func mayRepeat(have, want records.Publication) error {
	switch {
	case have.Volume != want.Volume:
		// The CO SHALL ensure uniqueness of target_path per volume.
		return fault.InUse.Errorf(
			"target_path %q: volume %q is published there; unpublish it first",
			want.Target,
			have.Volume,
		)
	case !have.SameArguments(want):
		return fault.Incompatible.Errorf("volume %q is published at %q as %s, not as %s; unpublish it first",
			want.Volume, want.Target, have.Arguments(), want.Arguments())
	default:
		return nil
	}
}

// mayShare decides the columns T1!=T2. Both publications must allow a second target: one that was
// made as the only one stays the only one.
func mayShare(others []records.Publication, want records.Publication) error {
	for _, have := range others {
		if !have.Mode.AllowsSeveralTargets() || !want.Mode.AllowsSeveralTargets() {
			return fault.InUse.Errorf(
				"volume %q is published at %q as %s, which excludes %q as %s; unpublish it first, or use an access "+
					"mode for several targets",
				want.Volume,
				have.Target,
				have.Arguments(),
				want.Target,
				want.Arguments(),
			)
		}
		// A device is read-only for all its users or for none: a read-only mount of a device node
		// does not make the device read-only.
		if want.Type == backend.Block && have.Access() != want.Access() {
			return fault.InUse.Errorf(
				"volume %q is published at %q as %s, and a block volume cannot be read-only at one path and writable "+
					"at another; unpublish it first",
				want.Volume,
				have.Target,
				have.Arguments(),
			)
		}
	}
	return nil
}
