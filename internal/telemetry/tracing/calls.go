package tracing

import (
	"context"
	"path"
	"strings"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/csispec"
)

// Client returns what traces the calls of a connection to a driver, and passes the context of the trace in
// the metadata of each; nil without tracing.
func (t *Tracing) Client() stats.Handler {
	if t == nil {
		return nil
	}
	return calls{otelgrpc.NewClientHandler(t.options()...)}
}

// Server returns what traces the calls to a driver, in the trace of the caller; nil without tracing.
func (t *Tracing) Server() stats.Handler {
	if t == nil {
		return nil
	}
	return calls{otelgrpc.NewServerHandler(t.options()...)}
}

func (t *Tracing) options() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithMeterProvider(noop.NewMeterProvider()),
		otelgrpc.WithPropagators(propagator), otelgrpc.WithFilter(isTraced),
	}
}

// isTraced leaves out the questions that a role repeats.
func isTraced(info *stats.RPCTagInfo) bool {
	switch name := path.Base(info.FullMethodName); {
	case name == "Probe", name == "NodeGetInfo", name == "NodeGetVolumeStats",
		strings.HasPrefix(name, "Get"), strings.HasSuffix(name, "Capabilities"):
		return false
	}
	return true
}

// calls adds the volume to the spans of calls, and keeps messages of errors from them: that of a driver
// may have anything in it.
type calls struct{ stats.Handler }

// HandleRPC implements stats.Handler.
func (c calls) HandleRPC(ctx context.Context, s stats.RPCStats) {
	switch rpc := s.(type) {
	case *stats.OutPayload:
		if rpc.Client {
			noteVolume(ctx, rpc.Payload)
		}
	case *stats.InPayload:
		if !rpc.Client {
			noteVolume(ctx, rpc.Payload)
		}
	case *stats.End:
		if rpc.Error != nil {
			end := *rpc
			end.Error = status.Error(status.Code(rpc.Error), "")
			s = &end
		}
	}
	c.Handler.HandleRPC(ctx, s)
}

func noteVolume(ctx context.Context, request any) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	if volume := csispec.VolumeOf(request); volume != "" {
		span.SetAttributes(attribute.String(keyVolume, cut(volume)))
	}
}
