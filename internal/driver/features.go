package driver

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/driver/backend"
)

// features are the optional interfaces of a backend, nil where it lacks one.
// What is nil here is not advertised and answers UNIMPLEMENTED: both follow
// from the same field, so they cannot disagree.
type features struct {
	lister  backend.Lister
	pool    backend.Pool
	direct  backend.Direct
	usage   backend.UsageReader
	checker backend.Checker
}

func featuresOf(b backend.Backend) features {
	var f features
	f.lister, _ = b.(backend.Lister)
	f.pool, _ = b.(backend.Pool)
	f.direct, _ = b.(backend.Direct)
	f.usage, _ = b.(backend.UsageReader)
	f.checker, _ = b.(backend.Checker)
	return f
}

func (f features) controllerCapabilities() []*csi.ControllerServiceCapability {
	types := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if f.lister != nil {
		types = append(types, csi.ControllerServiceCapability_RPC_LIST_VOLUMES)
	}
	if f.pool != nil {
		types = append(types, csi.ControllerServiceCapability_RPC_GET_CAPACITY)
	}
	capabilities := make([]*csi.ControllerServiceCapability, 0, len(types))
	for _, t := range types {
		capabilities = append(capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}
	return capabilities
}

func (f features) nodeCapabilities() []*csi.NodeServiceCapability {
	types := []csi.NodeServiceCapability_RPC_Type{csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER}
	if f.usage != nil {
		types = append(types, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS)
	}
	capabilities := make([]*csi.NodeServiceCapability, 0, len(types))
	for _, t := range types {
		capabilities = append(capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}
	return capabilities
}
