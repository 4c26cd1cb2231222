package registrar

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/registrar"
	"github.com/purser-csi/purser/internal/registrar/rules"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
)

// serve runs the role.
func (r *Role) serve(ctx context.Context) error {
	driver, err := r.Dial()
	if err != nil {
		return err
	}
	defer driver.Conn.Close()
	api, err := r.ReviewAPI(ctx)
	if err != nil {
		return err
	}
	registry := process.NewRegistry()
	part := r.New(ctx, Parts{Conn: driver.Conn, API: api, Registry: registry})
	defer part.Close()
	server := process.NewHTTPServer(process.HTTPConfig{
		Address: r.address(), Flag: r.addressFlag(), MetricsPath: r.MetricsPath,
		Metrics: prometheus.Gatherers{registry, driver.Calls},
		Pprof:   r.Pprof, Health: part.Health(), Secure: r.SecureServer(api),
	})
	part.AddTo(server)
	servers := []*process.HTTPServer{server}
	if r.address() == "" {
		logr.FromContextOrDiscard(ctx).Info("Skipping HTTP server because endpoint is set to: \"\"")
		servers = nil
	}
	return r.Serve(ctx, servers, func(ctx context.Context) error {
		defer part.WriteReason(ctx)
		return part.Run(ctx)
	})
}

// ReviewAPI returns the API server for events and reviews; nil if there is none and none is needed.
func (r *Role) ReviewAPI(ctx context.Context) (*rest.Config, error) {
	if r.node() == "" && !r.Secure {
		return nil, nil
	}
	api, err := r.APIConfig()
	if err != nil && r.Secure {
		return nil, err
	}
	if err != nil { // upstream needs no API server (NR-10)
		logr.FromContextOrDiscard(ctx).V(2).Info("no events are emitted", "problem", err.Error())
		return nil, nil
	}
	return api, nil
}

// Parts are what a registrar shares with the other components of its process.
type Parts struct {
	Conn     *csirpc.Conn
	API      *rest.Config // nil for no events
	Registry *prometheus.Registry
}

// Part is a registrar in a process.
type Part struct {
	*registrar.Registrar

	role   *Role
	events *kube.Events // nil for none
}

// New returns the registrar of the role. The caller closes it.
func (r *Role) New(ctx context.Context, parts Parts) *Part {
	p := &Part{role: r}
	if node := r.node(); parts.API != nil && node != "" {
		events, err := kube.NewEvents(ctx, kube.EventsConfig{
			API: parts.API, Component: Name,
			Dropped: telemetry.NewCounter(parts.Registry, telemetry.MetricEventsDropped).WithLabelValues().Inc,
		})
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "no events are emitted")
		} else {
			p.events = events
		}
	}
	registered := telemetry.NewGauge(parts.Registry, telemetry.MetricRegistered)
	p.Registrar = registrar.New(registrar.Config{
		Conn: parts.Conn, Dir: r.Dir, Endpoint: r.Endpoint, Timeout: r.Timeout,
		Notified: func(driver string, before, after rules.Kubelet) {
			value := 0.0
			if after.Registered {
				value = 1
			}
			registered.WithLabelValues(driver).Set(value)
			p.emit(driver, before, after)
		},
	})
	return p
}

// Close writes the events that wait.
func (p *Part) Close() {
	if p.events != nil {
		p.events.Close()
	}
}

// emit emits an event on the Node about an answer of the kubelet (NR-H4).
func (p *Part) emit(driver string, before, after rules.Kubelet) {
	if p.events == nil {
		return
	}
	name := p.role.node()
	// A kubelet's own events about its Node have the name as the uid, and so has kubectl describe node.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	switch {
	case rules.IsNews(before, after):
		p.events.Event(node, corev1.EventTypeWarning, string(verdict.RegistrationRefused), fmt.Sprintf(
			"the kubelet refused csi driver %s with socket %s: %s", driver, p.role.Endpoint, after.Refusal))
	case after.Registered && before.Refusal != "":
		p.events.Event(node, corev1.EventTypeNormal, string(verdict.RegistrationAccepted), fmt.Sprintf(
			"the kubelet has registered csi driver %s after %d refusals", driver, before.Refusals))
	}
}

// Health returns the handler of the health check (NR-14).
func (p *Part) Health() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, text, _ := p.Check(r.Context())
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	})
}

// AddTo serves the health of the registrar at /healthz/node-driver-registrar, and as a part of /readyz.
func (p *Part) AddTo(server *process.HTTPServer) {
	server.SetComponent(Name, p.Health())
	server.SetCheck(Name, p.Ready)
}

// WriteReason writes to the termination log why the driver is not registered, if it is not.
func (p *Part) WriteReason(ctx context.Context) {
	if problem := p.LastProblem(); problem != "" {
		process.WriteTerminationMessage(logr.FromContextOrDiscard(ctx), p.role.TerminationLog, problem)
	}
}
