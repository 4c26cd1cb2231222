package csirpc

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
)

const rpcGroupSnapshots = csi.GroupControllerServiceCapability_RPC_CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT

// TakesGroups reports whether the driver takes snapshots of groups of volumes.
func (c *Conn) TakesGroups(ctx context.Context, d Description) (bool, error) {
	if !d.Plugin[csi.PluginCapability_Service_GROUP_CONTROLLER_SERVICE] {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.GroupController().GroupControllerGetCapabilities(ctx, &csi.GroupControllerGetCapabilitiesRequest{})
	if err != nil {
		return false, c.failed(ctx, "GroupControllerGetCapabilities", err)
	}
	for _, capability := range answer.GetCapabilities() {
		if capability.GetRpc().GetType() == rpcGroupSnapshots {
			return true, nil
		}
	}
	return false, nil
}
