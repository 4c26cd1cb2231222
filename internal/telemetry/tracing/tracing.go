package tracing

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

// scope names the origin of Purser's own spans.
const scope = "github.com/purser-csi/purser"

// Keys of attributes.
const (
	keyController  = "purser.controller"
	keyReason      = "purser.reason"      // of the decision
	keyOutcome     = "purser.outcome"     // the reason at the end of the run
	keyWaitReason  = "purser.wait.reason" // of the wait that the decision ends
	keyWaitSeconds = "purser.wait.seconds"
	keyObject      = "purser.object" // KIND/NAMESPACE/NAME, or KIND/NAME
	keyVolume      = "purser.volume" // the name in a request that creates a volume, or the handle
	keyPrefix      = "purser."       // of the keys that logs have
)

// Tracing makes the spans of a process. A nil Tracing makes none, and costs nothing.
type Tracing struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
	carries  bool
}

// New returns what makes spans by a provider. If carries is true, objects carry the context of their trace
// in the annotation [names.AnnTraceParent].
func New(provider trace.TracerProvider, carries bool) *Tracing {
	return &Tracing{provider: provider, tracer: provider.Tracer(scope), carries: carries}
}

// Decision is a decision of a controller that has an effect.
type Decision struct {
	Controller string
	Reason     string
	At         time.Time
	Objects    []metav1.Object // that it is about
	Fields     []any           // keys and values, as in logs: names, handles and sizes
	Wait       Wait            // that it ends
}

// Wait is a wait of a controller for one reason. The zero value is none.
type Wait struct {
	Reason string
	Since  time.Time
}

// Outcome is the end of a decision's run.
type Outcome struct {
	At     time.Time
	Reason string
	Failed bool // the run was refused
}

// Begin begins the span of a decision. The spans of calls with the returned context are below it. end must
// be called.
func (t *Tracing) Begin(ctx context.Context, d Decision) (_ context.Context, end func(Outcome)) {
	if t == nil {
		return ctx, func(Outcome) {}
	}
	if t.carries {
		ctx = continued(ctx, d.Objects)
	}
	ctx, span := t.tracer.Start(ctx, d.Controller+" "+d.Reason,
		trace.WithTimestamp(d.At), trace.WithAttributes(attributes(d)...))
	return ctx, func(o Outcome) {
		span.SetAttributes(attribute.String(keyOutcome, o.Reason))
		if o.Failed {
			span.SetStatus(codes.Error, o.Reason)
		}
		span.End(trace.WithTimestamp(o.At))
	}
}

func attributes(d Decision) []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String(keyController, d.Controller), attribute.String(keyReason, d.Reason),
	}
	if d.Wait.Reason != "" {
		all = append(all, attribute.String(keyWaitReason, d.Wait.Reason),
			attribute.Float64(keyWaitSeconds, d.At.Sub(d.Wait.Since).Seconds()))
	}
	var objects []string
	for _, o := range d.Objects {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
		objects = append(objects, cut(kind+"/"+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")))
	}
	if len(objects) > 0 {
		all = append(all, attribute.StringSlice(keyObject, objects))
	}
	for i := 0; i+1 < len(d.Fields); i += 2 {
		if value := fmt.Sprint(d.Fields[i+1]); value != "" {
			all = append(all, attribute.String(keyPrefix+fmt.Sprint(d.Fields[i]), cut(value)))
		}
	}
	return all
}

// cut bounds a value. Names and handles have a few hundred bytes.
func cut(text string) string {
	const most = 1 << 10
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// propagator is how the context of a trace is written: the W3C's traceparent.
var propagator = propagation.TraceContext{}

// header is the name under which the propagator writes.
const header = "traceparent"

// continued returns a context in the trace that the first object with an annotation names. An annotation
// that is no context of a trace counts as none.
func continued(ctx context.Context, objects []metav1.Object) context.Context {
	for _, o := range objects {
		found := propagator.Extract(ctx, propagation.MapCarrier{header: o.GetAnnotations()[names.AnnTraceParent]})
		if trace.SpanContextFromContext(found).IsValid() {
			return found
		}
	}
	return ctx
}

// Carry writes the context of the trace on an object that is about to be created, if objects carry it.
func (t *Tracing) Carry(ctx context.Context, o metav1.Object) {
	if t == nil || !t.carries {
		return
	}
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	if carrier[header] == "" {
		return
	}
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnTraceParent] = carrier[header]
	o.SetAnnotations(annotations)
}
