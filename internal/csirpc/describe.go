package csirpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Description is the driver's name, version and capabilities.
type Description struct {
	Name       string
	Version    string
	Plugin     map[csi.PluginCapability_Service_Type]bool
	Controller map[csi.ControllerServiceCapability_RPC_Type]bool
}

// HasTopology reports whether volumes of the driver are not reachable from everywhere.
func (d Description) HasTopology() bool {
	return d.Plugin[csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS]
}

// Describe asks the driver for its name and capabilities. Capabilities with numbers that this
// version does not know are kept and ignored.
func (c *Conn) Describe(ctx context.Context) (Description, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	identity := csi.NewIdentityClient(c.grpc)
	info, err := identity.GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	if err != nil {
		return Description{}, c.failed(ctx, "GetPluginInfo", err)
	}
	if info.GetName() == "" {
		return Description{}, fmt.Errorf(
			"csi driver at %s: GetPluginInfo answers with an empty name; the CSI specification demands one",
			c.endpoint,
		)
	}
	if c.metrics != nil {
		c.metrics.SetDriverName(info.GetName())
	}
	plugin, err := identity.GetPluginCapabilities(ctx, &csi.GetPluginCapabilitiesRequest{})
	if err != nil {
		return Description{}, c.failed(ctx, "GetPluginCapabilities", err)
	}
	d := Description{
		Name: info.GetName(), Version: info.GetVendorVersion(),
		Plugin:     map[csi.PluginCapability_Service_Type]bool{},
		Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{},
	}
	for _, capability := range plugin.GetCapabilities() {
		d.Plugin[capability.GetService().GetType()] = true
	}
	if !d.Plugin[csi.PluginCapability_Service_CONTROLLER_SERVICE] {
		return d, nil
	}
	controller, err := c.Controller().ControllerGetCapabilities(ctx, &csi.ControllerGetCapabilitiesRequest{})
	if err != nil {
		return Description{}, c.failed(ctx, "ControllerGetCapabilities", err)
	}
	for _, capability := range controller.GetCapabilities() {
		d.Controller[capability.GetRpc().GetType()] = true
	}
	return d, nil
}

// failed says which call failed. A caller that stopped waiting gets context.Canceled, as from any
// other wait, so that a program that is stopped while it starts ends without an error.
func (c *Conn) failed(ctx context.Context, rpc string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		err = ctx.Err()
	}
	return fmt.Errorf("csi driver at %s: %s: %w", c.endpoint, rpc, err)
}

// NodeExpands reports whether the driver's node service has EXPAND_VOLUME, asked over the same
// socket (RZ-S2). A driver without a node service there has not.
func (c *Conn) NodeExpands(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.Node().NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if status.Code(err) == codes.Unimplemented {
		return false, nil
	}
	if err != nil {
		return false, c.failed(ctx, "NodeGetCapabilities", err)
	}
	for _, capability := range answer.GetCapabilities() {
		if capability.GetRpc().GetType() == csi.NodeServiceCapability_RPC_EXPAND_VOLUME {
			return true, nil
		}
	}
	return false, nil
}
