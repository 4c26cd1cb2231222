package roles

import (
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
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Where things are served, beside the metrics (HT-1 to HT-3).
const (
	pathLive   = "/livez"
	pathReady  = "/readyz"
	pathLeader = "/healthz/leader-election"
	pathPprof  = "/debug/pprof/"
)

// httpConfig says what a role serves, and where.
type httpConfig struct {
	Address     string // empty for nowhere
	MetricsPath string
	Metrics     prometheus.Gatherer
	Leader      func() error // of [pathLeader]; nil for no such path
	Live        check        // of [pathLive]; nil when a process that answers is alive
	Pprof       bool
}

// httpServer serves metrics and health of a role, on leaders and standbys alike. It answers from before the driver is met and
// the caches are filled until everything else has ended, so that a slow start is not taken for a dead process.
type httpServer struct {
	mux    *http.ServeMux
	server *http.Server
	failed chan error

	mu     sync.Mutex
	checks map[string]check
}

// check is a named part of /readyz.
type check func(context.Context) error

func newHTTPServer(cfg httpConfig) *httpServer {
	s := &httpServer{mux: http.NewServeMux(), failed: make(chan error, 1), checks: map[string]check{}}
	if cfg.Address != "" { // else nobody has looked at the path, and one that is none is a panic (HT-1)
		own := prometheus.NewRegistry() // how often it was scraped (ME-8)
		metrics := promhttp.HandlerFor(prometheus.Gatherers{cfg.Metrics, own}, promhttp.HandlerOpts{})
		s.mux.Handle(cfg.MetricsPath, promhttp.InstrumentMetricHandler(own, metrics))
	}
	s.mux.HandleFunc(pathLive, func(w http.ResponseWriter, r *http.Request) {
		if cfg.Live != nil {
			if err := cfg.Live(r.Context()); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		fmt.Fprintln(w, "ok")
	})
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
	writing := 30 * time.Second
	if cfg.Pprof {
		servePprof(s.mux)
		writing = 5 * time.Minute // a profile takes as long as the caller asks
	}
	s.server = &http.Server{
		Addr: cfg.Address, Handler: s.mux,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: writing, IdleTimeout: 2 * time.Minute,
	}
	return s
}

func servePprof(mux *http.ServeMux) {
	mux.HandleFunc(pathPprof, pprof.Index)
	mux.HandleFunc(pathPprof+"cmdline", pprof.Cmdline)
	mux.HandleFunc(pathPprof+"profile", pprof.Profile)
	mux.HandleFunc(pathPprof+"symbol", pprof.Symbol)
	mux.HandleFunc(pathPprof+"trace", pprof.Trace)
}

// setCheck adds a named check to /readyz, or takes the place of the one with this name.
func (s *httpServer) setCheck(name string, c check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks[name] = c
}

// notYet is the check of a part that is not there yet.
func notYet(what string) check {
	return func(context.Context) error { return errors.New(what) }
}

// readyz lists every check, so that the one that fails is named.
func (s *httpServer) readyz(w http.ResponseWriter, r *http.Request) {
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
		fmt.Fprintln(w, line)
	}
}

func (s *httpServer) named() map[string]check {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.checks)
}

// check is nil when every check is.
func (s *httpServer) check(ctx context.Context) error {
	checks := s.named()
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// start listens and serves in the background. It returns where: a port of 0 is any free one.
func (s *httpServer) start(ctx context.Context) (net.Addr, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.server.Addr)
	if err != nil {
		return nil, fmt.Errorf("--http-endpoint=%s: %w", s.server.Addr, err)
	}
	logr.FromContextOrDiscard(ctx).Info("serving metrics and health", "address", listener.Addr().String())
	go func() { s.failed <- s.server.Serve(listener) }()
	return listener.Addr(), nil
}

// Start implements manager.Runnable: a server that fails ends the role.
func (s *httpServer) Start(ctx context.Context) error {
	select {
	case err := <-s.failed:
		return fmt.Errorf("--http-endpoint=%s: %w", s.server.Addr, err)
	case <-ctx.Done():
		return nil
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *httpServer) NeedLeaderElection() bool { return false }

// stop lets answers that have begun end.
func (s *httpServer) stop() {
	bound, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.server.Shutdown(bound) // what has not ended by then is cut off with the process
}
