package rbd

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// limits are the mutable parameters that there are: options of librbd.
var limits = []string{
	"rbd_qos_bps_burst", "rbd_qos_bps_limit", "rbd_qos_iops_burst", "rbd_qos_iops_limit",
	"rbd_qos_read_bps_burst", "rbd_qos_read_bps_limit", "rbd_qos_read_iops_burst", "rbd_qos_read_iops_limit",
	"rbd_qos_write_bps_burst", "rbd_qos_write_bps_limit", "rbd_qos_write_iops_burst", "rbd_qos_write_iops_limit",
}

// CheckLimits says with a fault.Invalid error what is wrong with mutable
// parameters.
func CheckLimits(mutable map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(mutable)) {
		if !slices.Contains(limits, key) {
			return fault.Invalid.Errorf("mutable_parameters: %.64q is not known; there are %s", key, strings.Join(limits, ", "))
		}
		if _, err := strconv.ParseUint(mutable[key], 10, 63); err != nil {
			return fault.Invalid.Errorf("mutable_parameters: %s %.64q must be a number, 0 for no limit", key, mutable[key])
		}
	}
	return nil
}

// SetLimits sets what CheckLimits accepted.
func (p Pool) SetLimits(ctx context.Context, o handle.Object, mutable map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(mutable)) {
		if _, err := p.rbd(ctx, "config", "image", "set", p.spec(ImageName(o)), key, mutable[key]); err != nil {
			return err
		}
	}
	return nil
}
