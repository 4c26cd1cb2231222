package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// httpServer serves metrics and health of a role. It is a runnable of the manager, on leaders and standbys alike.
type httpServer struct {
	address string
	mux     *http.ServeMux
	ready   map[string]func(context.Context) error // named checks of /readyz
}

func newHTTPServer(address, metricsPath string, metrics prometheus.Gatherer) *httpServer {
	s := &httpServer{address: address, mux: http.NewServeMux()}
	s.mux.Handle(metricsPath, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	s.mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	s.mux.HandleFunc("/healthz/leader-election", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }) // HT-2: a lost lease ends the process
	s.mux.HandleFunc("/readyz", s.readyz)
	return s
}

// readyz lists every check, so that the one that fails is named.
func (s *httpServer) readyz(w http.ResponseWriter, r *http.Request) {
	var lines []string
	code := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(s.ready)) {
		if err := s.ready[name](r.Context()); err != nil {
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

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (s *httpServer) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (s *httpServer) Start(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("--http-endpoint=%s: %w", s.address, err)
	}
	server := &http.Server{Handler: s.mux, ReadHeaderTimeout: 10 * time.Second}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(listener) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err = server.Shutdown(bound)
	if served := <-stopped; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}
