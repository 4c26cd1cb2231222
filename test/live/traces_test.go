package live

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/driver"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/rolestest"
)

// collector is an OpenTelemetry collector that keeps what it gets.
type collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu      sync.Mutex
	spans   map[string]*tracev1.Span // by service and name; the last one of each
	text    strings.Builder          // of all requests
	headers []string
}

func startCollector(t *testing.T) (c *collector, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c = &collector{spans: map[string]*tracev1.Span{}}
	server := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return c, listener.Addr().String()
}

// Export implements the collector's service.
func (c *collector) Export(
	ctx context.Context, request *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(request.String())
	if given, ok := metadata.FromIncomingContext(ctx); ok {
		c.headers = given.Get("authorization")
	}
	for _, resource := range request.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans[service+" "+span.GetName()] = span
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// all returns the spans of the names; an error without one of them.
func (c *collector) all(names ...string) (spans []*tracev1.Span, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range names {
		span := c.spans[name]
		if span == nil {
			var has []string
			for name := range c.spans {
				has = append(has, name)
			}
			return nil, fmt.Errorf("no span %q among %q", name, has)
		}
		spans = append(spans, span)
	}
	return spans, nil
}

// With the variables of OpenTelemetry's SDK, a volume's creation and deletion are traced from the decision
// to the driver, in one trace, without a secret.
func TestTraces(t *testing.T) {
	api := rolestest.LiveCluster(t)
	const value, token = "correct-horse-battery-staple", "tr0ub4dor-and-3"
	c, address := startCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+address)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer "+token)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	socket, _ := rolestest.LiveDriver(t)
	user, err := client.New(api, client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "key"},
			StringData: map[string]string{"password": value},
		},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "deck"}, Provisioner: driver.DefaultName,
			Parameters: map[string]string{
				names.ParameterProvisionerSecretName: "key", names.ParameterProvisionerSecretNamespace: "default",
			},
		},
	} {
		if err := user.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := liveProvisioner(t, api, socket, "--purser-trace-annotation")
	end := rolestest.InBackground(t, p.Run)
	pv := claimVolume(t, user, "logbook")
	releaseVolume(t, user, pv)
	var spans []*tracev1.Span
	rolestest.Eventually(t, "the spans", func() (err error) {
		spans, err = c.all(
			"purser-csi-provisioner claims "+string(verdict.Provisioning),
			"purser-csi-provisioner csi.v1.Controller/CreateVolume", "purser-driver csi.v1.Controller/CreateVolume",
			"purser-csi-provisioner volumes "+string(verdict.VolumeReclaim),
			"purser-csi-provisioner csi.v1.Controller/DeleteVolume", "purser-driver csi.v1.Controller/DeleteVolume",
		)
		return err
	})
	end()
	for i, span := range spans {
		if i%3 > 0 && string(span.GetParentSpanId()) != string(spans[i-1].GetSpanId()) {
			t.Errorf("%s is not below %s", span.GetName(), spans[i-1].GetName())
		}
		if trace := fmt.Sprintf("%x", span.GetTraceId()); !strings.Contains(pv.Annotations[names.AnnTraceParent], trace) {
			t.Errorf("%s has trace %s, the volume carries %q", span.GetName(), trace, pv.Annotations[names.AnnTraceParent])
		}
		if span.GetEndTimeUnixNano() < span.GetStartTimeUnixNano() {
			t.Errorf("%s ends before it begins", span.GetName())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.text.String()
	if strings.Contains(text, value) || strings.Contains(text, token) {
		t.Error("a secret is in the spans")
	}
	if !strings.Contains(text, "PersistentVolumeClaim/default/logbook") || len(c.headers) == 0 {
		t.Errorf("the claim is not named, or no headers came: %v", c.headers)
	}
}

// releaseVolume does what a user and the controllers do of which none runs: the claim goes, and its volume is
// released.
func releaseVolume(t *testing.T, user client.Client, pv *corev1.PersistentVolume) {
	t.Helper()
	ref := pv.Spec.ClaimRef
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name}}
	if err := user.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	protected := claim.DeepCopy()
	protected.Finalizers = []string{names.FinalizerPVCProtection}
	if err := user.Patch(t.Context(), claim, client.MergeFrom(protected)); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	before := pv.DeepCopy()
	pv.Status.Phase = corev1.VolumeReleased
	if err := user.Status().Patch(t.Context(), pv, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
