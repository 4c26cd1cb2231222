package csirpc

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Name asks the driver for its name alone, within a timeout. It waits that long for a driver that
// does not listen yet, too.
func (c *Conn) Name(ctx context.Context, timeout time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := csi.NewIdentityClient(c.grpc).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return "", c.failed(ctx, "GetPluginInfo", err)
	}
	if info.GetName() == "" {
		return "", fmt.Errorf(
			"csi driver at %s: GetPluginInfo answers with an empty name; the CSI specification demands one", c.endpoint,
		)
	}
	if c.metrics != nil {
		c.metrics.SetDriverName(info.GetName())
	}
	return info.GetName(), nil
}

// NodeInfo asks the driver for what a kubelet registers, within a timeout.
func (c *Conn) NodeInfo(ctx context.Context, timeout time.Duration) (*csi.NodeGetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := c.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return nil, c.failed(ctx, "NodeGetInfo", err)
	}
	return answer, nil
}

// ProbeWithin makes one Probe call within a timeout. Unlike [Conn.Probe], it waits that long for a
// driver that does not listen, as one that restarts, and calls once more if the connection breaks
// during the call. ready is false if the driver says so; an answer without a value means that it is
// ready (LP-12).
func (c *Conn) ProbeWithin(ctx context.Context, timeout time.Duration) (ready bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	identity := csi.NewIdentityClient(c.grpc)
	answer, err := identity.Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	if status.Code(err) == codes.Unavailable && ctx.Err() == nil {
		answer, err = identity.Probe(ctx, &csi.ProbeRequest{}, grpc.WaitForReady(true))
	}
	if err != nil {
		return false, c.failed(ctx, "Probe", err)
	}
	return answer.GetReady() == nil || answer.GetReady().GetValue(), nil
}
