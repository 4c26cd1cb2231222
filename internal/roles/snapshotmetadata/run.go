package snapshotmetadata

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/snapshotmetadata"
	"github.com/purser-csi/purser/internal/telemetry"
)

// serve runs the role. HTTP is served first, so that health can be asked while the driver starts
// (CB-H6).
func (r *Role) serve(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGQUIT) // CB-21
	defer stop()
	api, err := r.APIConfig()
	if err != nil {
		return err
	}
	driver, err := r.Dial()
	if err != nil {
		return err
	}
	defer driver.Conn.Close()
	registry := process.NewRegistry()
	r.CountThrottle(registry)
	part, err := r.New(Parts{Conn: driver.Conn, API: api, Registry: registry})
	if err != nil {
		return err
	}
	server := r.httpServer(prometheus.Gatherers{registry, driver.Calls}, api)
	part.AddTo(server, Name)
	server.SetPath(pathHealth, http.HandlerFunc(part.health))
	servers := []*process.HTTPServer{server}
	if r.HTTPEndpoint == "" {
		servers = nil
	}
	return r.Serve(ctx, servers, part.Run)
}

// httpServer returns the server of metrics and health (CB-7).
func (r *Role) httpServer(metrics prometheus.Gatherer, api *rest.Config) *process.HTTPServer {
	cfg := process.HTTPConfig{
		Address: r.HTTPEndpoint, MetricsPath: r.MetricsPath, Metrics: metrics, Secure: r.SecureServer(api),
	}
	if r.DisableMetrics {
		cfg.Metrics = nil
	}
	return process.NewHTTPServer(cfg)
}

// Parts are what a service shares with the other components of its process.
type Parts struct {
	Conn     *csirpc.Conn
	API      *rest.Config
	Registry *prometheus.Registry
	Drain    time.Duration // for open streams at the end; 0 for the longest duration of one
}

// Part is a service in a process.
type Part struct {
	role    *Role
	cfg     snapshotmetadata.Config
	service atomic.Pointer[snapshotmetadata.Service] // nil until it runs
	problem atomic.Pointer[error]                    // why it does not run; nil if there is none
}

// New returns the service of the role, which does not listen yet.
func (r *Role) New(parts Parts) (*Part, error) {
	cfg, err := r.tls.config()
	if err != nil {
		return nil, err
	}
	reviews, err := kube.NewReviewer(parts.API)
	if err != nil {
		return nil, err
	}
	objects, err := snapshotmetadata.NewReader(parts.API)
	if err != nil {
		return nil, err
	}
	return &Part{role: r, cfg: snapshotmetadata.Config{
		Conn: parts.Conn, Reviews: reviews, Objects: objects, TLS: cfg, Audience: r.Audience,
		Longest: r.longest(), Timeout: r.Timeout, Drain: parts.Drain, Ended: count(parts.Registry),
	}}, nil
}

// count returns a function that counts requests in the metric of the service.
func count(registry prometheus.Registerer) func(driver, method string, code codes.Code, took time.Duration) {
	operations := telemetry.NewMetadataOperations(registry)
	return func(driver, method string, code codes.Code, took time.Duration) {
		operations(driver, method, code.String(), took)
	}
}

// Run serves until ctx ends. It can be called again after an error, such as that of a certificate
// that is not there yet.
func (p *Part) Run(ctx context.Context) error {
	err := p.serve(ctx)
	if err != nil {
		p.problem.Store(&err)
	}
	return err
}

// serve reads the certificate, listens and serves.
func (p *Part) serve(ctx context.Context) error {
	cfg := p.cfg
	cfg.TLS = cfg.TLS.Clone()
	var err error
	if cfg.TLS.GetCertificate, err = process.FileCertificate(ctx, p.role.cert(), p.role.key()); err != nil {
		return fmt.Errorf("--tls-cert=%s: %w", p.role.cert(), err)
	}
	address := ":" + strconv.Itoa(p.role.Port)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--port=%d: %w", p.role.Port, err)
	}
	defer listener.Close()
	service := snapshotmetadata.New(ctx, cfg)
	p.service.Store(service) // it says why it ended, until the next one runs
	if p.role.Serving != nil {
		p.role.Serving(listener.Addr())
	}
	return service.Run(ctx, listener)
}

// Check returns nil when requests are served.
func (p *Part) Check(ctx context.Context) error {
	service, problem := p.service.Load(), p.problem.Load()
	switch {
	case service == nil && problem != nil:
		return fmt.Errorf("%w: %w", errNotRunning, *problem)
	case service == nil:
		return errNotRunning
	}
	return service.Check(ctx)
}

var errNotRunning = errors.New("not ready: the service does not run")

// AddTo serves the health of the service at /healthz/NAME, and as a part of /readyz.
func (p *Part) AddTo(server *process.HTTPServer, name string) {
	server.SetComponent(name, process.ComponentCheck(p.Check))
	server.SetCheck(name, p.Check)
}

// pathHealth is upstream's path of health (CB-19).
const pathHealth = "/health"

// health serves upstream's answers.
func (p *Part) health(w http.ResponseWriter, r *http.Request) {
	if p.Check(r.Context()) != nil {
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, "ok")
}
