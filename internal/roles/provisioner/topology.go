package provisioner

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
)

// topology reports whether places matter: the driver has them, and the gate does not say to look
// away (G-1).
func (w *builder) topology() bool {
	return w.Driver.HasTopology() && w.role.Gates.Enabled(GateTopology)
}

// attaches reports whether volumes of the driver have VolumeAttachments at all (W-5).
func (w *builder) attaches() bool {
	return w.Driver.Controller[csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME]
}

// warnOfTopology tells of the two settings whose defaults this version does not do: places beside
// that of the selected node (T-13), and places where no node is selected (T-16).
func (w *builder) warnOfTopology(ctx context.Context) {
	if w.topology() && (!w.role.Topology.Strict || w.role.Topology.Immediate) {
		logr.FromContextOrDiscard(ctx).
			Info("volumes are asked for at the selected node only, and without one the driver chooses, as with these flags",
				"flags", "--strict-topology=true --immediate-topology=false")
	}
}
