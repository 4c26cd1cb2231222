package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"

	"github.com/purser-csi/purser/internal/printable"
	"github.com/purser-csi/purser/internal/telemetry"
)

// The paths of the health endpoints (HT-1 to HT-3).
const (
	pathLive   = "/livez"
	pathHealth = "/healthz" // the older name of pathLive
	pathReady  = "/readyz"
	pathLeader = "/healthz/leader-election"
	pathPprof  = "/debug/pprof/"
)

// HTTPConfig says what a role serves over HTTP, and at which address.
type HTTPConfig struct {
	Address     string // empty for nowhere
	Flag        string // that gives the address, for errors; empty for http-endpoint
	MetricsPath string
	Metrics     prometheus.Gatherer
	Leader      func() error // of [pathLeader]; nil for no such path
	Live        Check        // of [pathLive]; nil when a process that answers is alive
	Pprof       bool
	Spans       http.Handler // of [telemetry.PathSpans]; nil for no such path
	Health      http.Handler // of [pathHealth] in place of Live; may be nil
	// Longest is how long an answer of Health may take; 0 for less than half a minute.
	Longest time.Duration
	Secure  *Secure // HTTPS, and access reviews for all but health; nil for plain HTTP
}

// HTTPServer serves metrics and health of a role, on leaders and standbys alike. It starts before
// the driver has answered and the caches have synced, and ends last, so that a liveness probe does
// not kill a process that starts slowly.
type HTTPServer struct {
	mux    *http.ServeMux
	server *http.Server
	flag   string
	secure *Secure
	setup  error // of a secure server; nil when it can listen
	failed chan error

	mu         sync.Mutex
	checks     map[string]Check
	components map[string]http.Handler
}

// Check is a named part of /readyz.
type Check func(context.Context) error

// NewHTTPServer returns a server that does not listen yet.
func NewHTTPServer(cfg HTTPConfig) *HTTPServer {
	s := &HTTPServer{
		mux: http.NewServeMux(), flag: cmp.Or(cfg.Flag, "http-endpoint"), secure: cfg.Secure,
		failed: make(chan error, 1), checks: map[string]Check{}, components: map[string]http.Handler{},
	}
	only := func(h http.Handler) http.Handler { return h }
	if cfg.Secure != nil && cfg.Address != "" {
		var reviews reviewer
		reviews, s.setup = cfg.Secure.reviewsOf() // Listen returns the error
		only = newAccess(reviews, clock.RealClock{}).only
	}
	// Without an address the path is not validated, and an invalid one is a panic (HT-1).
	if cfg.Address != "" && cfg.Metrics != nil {
		own := prometheus.NewRegistry() // how often it was scraped (ME-8)
		metrics := promhttp.HandlerFor(prometheus.Gatherers{cfg.Metrics, own}, promhttp.HandlerOpts{})
		s.mux.Handle(cfg.MetricsPath, only(promhttp.InstrumentMetricHandler(own, metrics)))
	}
	s.mux.HandleFunc(pathLive, livez(cfg.Live))
	if cfg.Health != nil {
		s.mux.Handle(pathHealth, cfg.Health)
	} else {
		s.mux.HandleFunc(pathHealth, livez(cfg.Live))
	}
	s.mux.HandleFunc(pathHealth+"/{component}", s.component)
	s.mux.HandleFunc(pathReady, s.readyz)
	if cfg.Leader != nil {
		s.mux.HandleFunc(pathLeader, func(w http.ResponseWriter, _ *http.Request) {
			if err := cfg.Leader(); err != nil {
				http.Error(w, "internal server error: "+err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, "ok")
		})
	}
	if cfg.Spans != nil {
		s.mux.Handle(telemetry.PathSpans, only(cfg.Spans))
	}
	writing := max(30*time.Second, cfg.Longest+5*time.Second)
	if cfg.Pprof {
		servePprof(s.mux, only)
		writing = 5 * time.Minute // a profile takes as long as the caller asks
	}
	s.server = &http.Server{
		Addr: cfg.Address, Handler: s.mux,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writing,
		IdleTimeout: 2 * time.Minute,
	}
	return s
}

// NewRegistry returns a registry with the metrics of the Go runtime and of the process.
func NewRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return registry
}

func livez(check Check) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if check != nil {
			if err := check(r.Context()); err != nil {
				http.Error(w, printable.Text(err.Error()), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	}
}

func servePprof(mux *http.ServeMux, only func(http.Handler) http.Handler) {
	for name, handler := range map[string]http.HandlerFunc{
		"": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile, "symbol": pprof.Symbol,
		"trace": pprof.Trace,
	} {
		mux.Handle(pathPprof+name, only(handler))
	}
}

// SetComponent serves the health of one component of the process at /healthz/NAME.
func (s *HTTPServer) SetComponent(name string, health http.Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.components[name] = health
}

// SetPath serves one more path, such as an older one of health.
func (s *HTTPServer) SetPath(path string, handler http.Handler) { s.mux.Handle(path, handler) }

// ComponentCheck returns the health of a component by a check.
func ComponentCheck(check Check) http.Handler { return livez(check) }

func (s *HTTPServer) component(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	health := s.components[r.PathValue("component")]
	s.mu.Unlock()
	if health == nil {
		http.NotFound(w, r)
		return
	}
	health.ServeHTTP(w, r)
}

// SetCheck adds a named check to /readyz, or takes the place of the one with this name.
func (s *HTTPServer) SetCheck(name string, c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[name] = c
}

// NotYet returns a check that fails because a part has not started yet.
func NotYet(what string) Check {
	return func(context.Context) error { return errors.New(what) }
}

// readyz lists every check, so that the one that fails is named.
func (s *HTTPServer) readyz(w http.ResponseWriter, r *http.Request) {
	checks := s.named()
	var lines []string
	code := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](r.Context()); err != nil {
			code = http.StatusServiceUnavailable
			lines = append(lines, fmt.Sprintf("[-] %s: %v", name, err))
			continue
		}
		lines = append(lines, "[+] "+name+": ok")
	}
	w.WriteHeader(code)
	for _, line := range lines {
		fmt.Fprintln(w, printable.Text(line))
	}
}

func (s *HTTPServer) named() map[string]Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.checks)
}

// CheckAll returns nil when every check returns nil.
func (s *HTTPServer) CheckAll(ctx context.Context) error {
	checks := s.named()
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// CheckSome returns nil when the checks with these names return nil. A check that is not there passes.
func (s *HTTPServer) CheckSome(ctx context.Context, names ...string) error {
	checks := s.named()
	for _, name := range names {
		if check := checks[name]; check != nil {
			if err := check(ctx); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// Listen listens and serves in the background. It returns its address: port 0 means any free port.
func (s *HTTPServer) Listen(ctx context.Context) (net.Addr, error) {
	if s.setup != nil {
		return nil, s.setup
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.server.Addr)
	if err != nil {
		return nil, fmt.Errorf("--%s=%s: %w", s.flag, s.server.Addr, err)
	}
	if s.secure != nil {
		if listener, err = s.secure.listen(ctx, listener); err != nil {
			return nil, err
		}
	}
	log := logr.FromContextOrDiscard(ctx)
	log.Info("serving metrics and health", "address", listener.Addr().String(), "secure", s.secure != nil)
	s.server.BaseContext = func(net.Listener) context.Context {
		return logr.NewContext(context.Background(), log)
	}
	go func() { s.failed <- s.server.Serve(listener) }()
	return listener.Addr(), nil
}

// Start implements manager.Runnable: a server that fails ends the role.
func (s *HTTPServer) Start(ctx context.Context) error {
	select {
	case err := <-s.failed:
		return fmt.Errorf("--%s=%s: %w", s.flag, s.server.Addr, err)
	case <-ctx.Done():
		return nil
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *HTTPServer) NeedLeaderElection() bool { return false }

// Stop waits for the requests in flight, up to a bound.
func (s *HTTPServer) Stop() {
	bound, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(bound) // requests that take longer end with the process
}
