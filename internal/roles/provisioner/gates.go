package provisioner

import (
	"k8s.io/component-base/featuregate"

	"github.com/purser-csi/purser/internal/roles/cli"
)

// The feature gates of upstream's latest version (G-1 to G-4).
const (
	GateTopology               featuregate.Feature = "Topology"
	GateCrossNamespaceSource   featuregate.Feature = "CrossNamespaceVolumeDataSource"
	GateVolumeAttributesClass  featuregate.Feature = "VolumeAttributesClass"
	GateReleaseLeaseOnShutdown featuregate.Feature = "ReleaseLeaderElectionOnExit"
)

// gateTable differs from upstream in one default: the lease is released when the process ends, so
// that the next leader need not wait for it to expire (U-59).
var gateTable = cli.GateTable{
	Specs: map[featuregate.Feature]featuregate.FeatureSpec{
		GateTopology:               {Default: true, PreRelease: featuregate.GA},
		GateCrossNamespaceSource:   {Default: false, PreRelease: featuregate.Alpha},
		GateVolumeAttributesClass:  {Default: true, PreRelease: featuregate.GA},
		GateReleaseLeaseOnShutdown: {Default: true, PreRelease: featuregate.Alpha},
	},
	// Upstream does not start when a chart still sets one of these (CL-8, G-5, U-62).
	Removed: map[string]string{
		"HonorPVReclaimPolicy": "the reclaim policy is always honoured",
		"CSINodeInfo":          "CSINode objects are always used",
	},
	Ignored:   cli.LibraryGates,
	Fixed:     []featuregate.Feature{GateReleaseLeaseOnShutdown},
	NoteStage: noteStage,
}

// noteStage returns the warning about AllAlpha or AllBeta.
func noteStage(stage featuregate.Feature, on bool) string {
	switch {
	case stage == cli.GateAllAlpha && on:
		return "of the alpha gates, CrossNamespaceVolumeDataSource is on now"
	case stage == cli.GateAllAlpha:
		return "the alpha gate ReleaseLeaderElectionOnExit, which is on by default here, stays as it is unless it is " +
			"named"
	}
	return "no gate of csi-provisioner is beta, so it has no effect on this role"
}
