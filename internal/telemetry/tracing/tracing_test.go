package tracing

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
)

const planted = "correct-horse-battery-staple"

func recorded(carries bool) (*Tracing, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), carries), recorder
}

// A decision says its reason, its objects and the wait that it ends.
func TestDecision(t *testing.T) {
	tracing, recorder := recorded(false)
	began := time.Unix(1000, 0)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}}
	_, end := tracing.Begin(t.Context(), Decision{
		Controller: "provision", Reason: "Provisioning", At: began, Objects: []metav1.Object{claim},
		Fields: []any{"volume", "pvc-1", "node", ""}, Wait: Wait{"ClassAbsent", began.Add(-90 * time.Second)},
	})
	end(Outcome{At: began.Add(time.Second), Reason: "CreateFailed", Failed: true})
	span := recorder.Ended()[0]
	if span.Name() != "provision Provisioning" || !span.StartTime().Equal(began) || span.Status().Description != "CreateFailed" {
		t.Errorf("%s from %s: %v", span.Name(), span.StartTime(), span.Status())
	}
	got := map[string]string{}
	for _, a := range span.Attributes() {
		got[string(a.Key)] = a.Value.String()
	}
	for key, want := range map[string]string{
		keyReason: "Provisioning", keyOutcome: "CreateFailed", keyWaitReason: "ClassAbsent", keyWaitSeconds: "90",
		keyObject: `["PersistentVolumeClaim/shop/data"]`, "purser.volume": "pvc-1",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	if _, has := got["purser.node"]; has {
		t.Error("an empty field is there")
	}
}

// Without tracing nothing is made, and nothing fails.
func TestWithout(t *testing.T) {
	var none *Tracing
	ctx, end := none.Begin(t.Context(), Decision{})
	end(Outcome{})
	pv := &corev1.PersistentVolume{}
	none.Carry(ctx, pv)
	if ctx != t.Context() || none.Client() != nil || none.Server() != nil || pv.Annotations != nil {
		t.Error("something was made")
	}
}

// The annotation of an object leads its decisions into one trace; a bad one counts as none.
func TestCarry(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, tc := range []struct {
		name, annotation string
		carries          bool
		trace            string // empty for another
	}{
		{"in its trace", parent, true, "0af7651916cd43dd8448eb211c80319c"},
		{"without the flag", parent, false, ""},
		{"no context", "00-zz\x1b[2J", true, ""},
	} {
		tracing, recorder := recorded(tc.carries)
		claim := &corev1.PersistentVolumeClaim{}
		claim.Annotations = map[string]string{names.AnnTraceParent: tc.annotation}
		ctx, end := tracing.Begin(t.Context(), Decision{Objects: []metav1.Object{&corev1.Pod{}, claim}})
		pv := &corev1.PersistentVolume{}
		tracing.Carry(ctx, pv)
		end(Outcome{})
		trace := recorder.Ended()[0].SpanContext().TraceID().String()
		if tc.trace != "" && trace != tc.trace || tc.trace == "" && strings.Contains(parent, trace) {
			t.Errorf("%s: trace %s", tc.name, trace)
		}
		if carried := pv.Annotations[names.AnnTraceParent]; tc.carries != strings.Contains(carried, trace) {
			t.Errorf("%s: the volume has %q", tc.name, carried)
		}
	}
}

type server struct {
	csi.UnimplementedControllerServer
	csi.UnimplementedIdentityServer
}

func (server) DeleteVolume(context.Context, *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return nil, status.Error(codes.Internal, "cannot use password "+planted)
}

func (server) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

// A call is a span below the decision's on both sides of the socket, with its volume and its code, and
// without its secrets and its message. A probe is none.
func TestCalls(t *testing.T) {
	client, ofClient := recorded(false)
	driver, ofDriver := recorded(false)
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	serves := grpc.NewServer(grpc.StatsHandler(driver.Server()))
	csi.RegisterControllerServer(serves, server{})
	csi.RegisterIdentityServer(serves, server{})
	go serves.Serve(listener)
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithStatsHandler(client.Client()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := client.Begin(t.Context(), Decision{Controller: "reclaim", Reason: "Deleting"})
	if _, err := csi.NewIdentityClient(conn).Probe(ctx, &csi.ProbeRequest{}); err != nil {
		t.Error(err)
	}
	_, err = csi.NewControllerClient(conn).DeleteVolume(ctx, &csi.DeleteVolumeRequest{
		VolumeId: "h1", Secrets: map[string]string{"password": planted},
	})
	if status.Convert(err).Message() != "cannot use password "+planted {
		t.Errorf("the caller got %v", err)
	}
	end(Outcome{})
	conn.Close()
	serves.GracefulStop() // the driver's span has ended
	decision, calls, served := ofClient.Ended()[1], ofClient.Ended()[:1], ofDriver.Ended()
	if len(ofClient.Ended()) != 2 || len(served) != 1 {
		t.Fatalf("%d and %d spans", len(ofClient.Ended()), len(served))
	}
	if calls[0].Parent().SpanID() != decision.SpanContext().SpanID() ||
		served[0].Parent().SpanID() != calls[0].SpanContext().SpanID() {
		t.Error("the call is not below the decision on both sides")
	}
	for _, span := range append(calls, served...) {
		text := fmt.Sprint(span.Name(), span.Attributes(), span.Status(), span.Events())
		if strings.Contains(text, planted) || !strings.Contains(text, "h1") || !strings.Contains(text, "DeleteVolume") ||
			!strings.Contains(strings.ToUpper(text), "INTERNAL") {
			t.Error(text)
		}
	}
}
