package process

import (
	"cmp"
	"context"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/telemetry/tracing"
)

// TraceSettings are the flags about traces. Where they are sent to is said by the variables of
// OpenTelemetry's SDK.
type TraceSettings struct {
	TraceAnnotation bool
}

// AddTraceFlags adds --purser-trace-annotation.
func (t *TraceSettings) AddTraceFlags(f *pflag.FlagSet) {
	f.BoolVar(&t.TraceAnnotation, "purser-trace-annotation", false,
		"carry the context of a trace on objects, in the annotation "+names.AnnTraceParent+": the spans about an "+
			"object that has one belong to its trace, and it is written on new PersistentVolumes and "+
			"VolumeAttachments; only with OTEL_EXPORTER_OTLP_ENDPOINT in the environment")
}

const (
	// lastSpans bounds how long the end of a process waits for the last spans to be sent.
	lastSpans = 3 * time.Second
	// complainOfSpans is the shortest time between two log lines about spans that cannot be sent.
	complainOfSpans = time.Minute
)

// StartTracing returns what sends spans to the collector that the environment names, and a function that
// sends the last ones; nil if it names none. What is wrong with the variables is logged: no volume waits
// because of it.
func StartTracing(
	ctx context.Context, role, version string, settings TraceSettings,
) (t *tracing.Tracing, stop func()) {
	log := logr.FromContextOrDiscard(ctx).WithName("traces")
	if !exportsTraces(os.Getenv) {
		return nil, func() {}
	}
	if protocol := protocolOf(os.Getenv); protocol != "grpc" {
		log.Info("no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL names another protocol than grpc; set it to grpc, "+
			"and the endpoint to that for gRPC, usually port 4317", "protocol", protocol)
		return nil, func() {}
	}
	// The SDK logs values of variables that it cannot use, such as headers with tokens.
	otel.SetLogger(logr.Discard())
	otel.SetErrorHandler(&exportErrors{log: log})
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		log.Error(err, "no traces are sent")
		return nil, func() {}
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter), sdktrace.WithResource(resourceOf(ctx, role, version)),
	)
	log.Info("sending traces", "protocol", "grpc")
	return tracing.New(provider, settings.TraceAnnotation), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Info("some of the last spans were not sent", "problem", err.Error())
		}
	}
}

// exportsTraces reports whether the environment names a collector for traces.
func exportsTraces(getenv func(string) string) bool {
	return getenv("OTEL_SDK_DISABLED") != "true" && cmp.Or(getenv("OTEL_TRACES_EXPORTER"), "otlp") == "otlp" &&
		cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
}

// protocolOf returns the protocol that the environment names.
func protocolOf(getenv func(string) string) string {
	return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "grpc")
}

// resourceOf says which process sends. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
func resourceOf(ctx context.Context, role, version string) *resource.Resource {
	own := []attribute.KeyValue{
		attribute.String("service.name", "purser-"+role), attribute.String("service.version", version),
	}
	if host, err := os.Hostname(); err == nil { // in a pod its name
		own = append(own, attribute.String("service.instance.id", host))
	}
	found, err := resource.New(
		ctx, resource.WithTelemetrySDK(), resource.WithAttributes(own...), resource.WithFromEnv(),
	)
	if err != nil {
		otel.Handle(err) // found has what can be used
	}
	return found
}

// exportErrors logs errors of the SDK, one a minute. A collector that is away fails every few seconds.
type exportErrors struct {
	log logr.Logger

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (e *exportErrors) Handle(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.last) >= complainOfSpans {
		e.last = time.Now()
		e.log.Info("spans could not be sent, and are lost", "problem", err.Error())
	}
}
