package mounting

import "github.com/container-storage-interface/spec/lib/go/csi"

// Stats is the usage of a volume. What the driver does not say is 0, as with a kubelet.
type Stats struct {
	Capacity, Available, Used           int64 // bytes
	Inodes, InodesAvailable, InodesUsed int64
}

// StatsOf returns the usage in a driver's answer (5.11). Units that are not known are left out.
func StatsOf(answer *csi.NodeGetVolumeStatsResponse) Stats {
	var s Stats
	for _, usage := range answer.GetUsage() {
		switch usage.GetUnit() {
		case csi.VolumeUsage_BYTES:
			s.Capacity, s.Available, s.Used = usage.GetTotal(), usage.GetAvailable(), usage.GetUsed()
		case csi.VolumeUsage_INODES:
			s.Inodes, s.InodesAvailable, s.InodesUsed = usage.GetTotal(), usage.GetAvailable(), usage.GetUsed()
		case csi.VolumeUsage_UNKNOWN:
		}
	}
	return s
}
