package driver

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// identityServer needs no locks: it answers from constants and asks the
// backend a question.
type identityServer struct {
	csi.UnimplementedIdentityServer
	config   Config
	features features
}

func (s *identityServer) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: s.config.Name, VendorVersion: s.config.Version}, nil
}

func (s *identityServer) GetPluginCapabilities(
	context.Context,
	*csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{Capabilities: s.features.pluginCapabilities()}, nil
}

// Probe answers FAILED_PRECONDITION when calls are bound to fail ("Probe
// Errors": missing required dependency).
func (s *identityServer) Probe(ctx context.Context, _ *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	if s.features.checker != nil {
		if err := s.features.checker.Check(ctx); err != nil {
			return nil, err
		}
	}
	return &csi.ProbeResponse{Ready: wrapperspb.Bool(true)}, nil
}
