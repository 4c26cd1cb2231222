package sidecars

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	registering "github.com/purser-csi/purser/internal/registrar"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/registrar"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotmetadata"
	snapshots "github.com/purser-csi/purser/internal/snapshotmetadata"
)

// runParts runs the components that have no controllers beside those that have. A failure of the
// former is theirs alone: they start again. The end of the latter ends the process, since a lease
// that is lost leaves no other way; the driver stays registered until it is back.
func (s *Sidecars) runParts(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts, serve, err := s.parts(ctx)
	if err != nil {
		return err
	}
	defer parts.close()
	var running errgroup.Group
	for name, run := range parts.runs {
		running.Go(func() error { supervise(ctx, name, run); return nil })
	}
	for _, server := range parts.servers {
		if _, err := server.Listen(ctx); err != nil {
			cancel(registering.ErrKeepSocket)
			_ = running.Wait() // no part returns an error
			return err
		}
		defer server.Stop()
	}
	if s.hasControllers() {
		s.Served = serve
		err = sidecar.Run(ctx, &s.Config, s.hostRole())
	} else {
		err = s.serveAlone(ctx, parts, serve)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		cancel(fmt.Errorf("%w: %w", registering.ErrKeepSocket, err))
	} else {
		cancel(nil)
	}
	_ = running.Wait() // no part returns an error
	return err
}

// hostRole returns the role whose manager hosts the others. Without the provisioner it has none of its
// controllers, and the lease of the first of the others: a csi-provisioner beside this process has its own.
// With --node-deployment the instance of each node has a lease of its own, so that all of them lead.
func (s *Sidecars) hostRole() sidecar.Role {
	role := s.Role()
	if !s.runs(compProvisioner) {
		role.Table = func(context.Context, *sidecar.Sidecar) ([]registry.Controller, error) { return nil, nil }
		role.Trim, role.Begin, role.Check = nil, nil, nil
		first := s.hosted()[0].Role().Lease
		role.Lease = func(driver string) string { return s.PlaceName(first(driver)) }
	}
	return role
}

// parts are the components without controllers.
type parts struct {
	api      *rest.Config // nil if it is not needed
	registry *prometheus.Registry
	runs     map[string]func(context.Context) error
	servers  []*process.HTTPServer // of their own ports
	close    func()
}

// parts returns the components without controllers, and a function that adds them to the HTTP server.
func (s *Sidecars) parts(ctx context.Context) (p *parts, serve func(*process.HTTPServer), err error) {
	p = &parts{registry: prometheus.NewRegistry(), runs: map[string]func(context.Context) error{}, close: func() {}}
	s.Colocated.Registry = p.registry
	r := s.Registrar
	r.Version, r.APIAccess = s.Version, s.APIAccess
	r.Secure = s.Secure
	if p.api, err = r.ReviewAPI(ctx); err != nil {
		return nil, nil, err
	}
	var adds []func(*process.HTTPServer)
	if s.runs(compRegistrar) {
		part := r.New(ctx, registrar.Parts{Conn: s.Shared.Conn, API: p.api, Registry: p.registry})
		p.runs[compRegistrar], p.close = part.Run, func() { part.WriteReason(ctx); part.Close() }
		adds = append(adds, part.AddTo)
		if r.HealthPort > 0 {
			p.listen(":"+strconv.Itoa(r.HealthPort), compRegistrar+"-"+healthPort, part.Health(), r.Timeout)
		}
	}
	if s.runs(compLiveness) {
		prober := s.Liveness.New(s.Shared.Conn)
		p.runs[compLiveness] = prober.Run
		adds = append(adds, func(server *process.HTTPServer) { server.SetComponent(compLiveness, prober) })
		for _, flag := range []string{healthPort, compLiveness + "-" + healthPort} {
			if s.given(flag) {
				p.listen(s.Liveness.PortAddress(), flag, prober, s.Liveness.Timeout)
				break
			}
		}
	}
	if s.runs(compMetadata) {
		part, err := s.metadata(p)
		if err != nil {
			return nil, nil, err
		}
		adds = append(adds, func(server *process.HTTPServer) { part.AddTo(server, compMetadata) })
	}
	return p, func(server *process.HTTPServer) {
		if !s.runs(compProvisioner) { // it only hosts the others
			server.SetComponent(compProvisioner, nil)
		}
		for _, add := range adds {
			add(server)
		}
	}, nil
}

// metadataDrain is how long open streams of blocks hold up the end of the process. The grace period
// of a pod is 30 seconds, and the client resumes at the end of its last block.
const metadataDrain = 15 * time.Second

// metadata adds the service of snapshot metadata. A certificate that is missing is its problem
// alone: it starts again.
func (s *Sidecars) metadata(p *parts) (*snapshotmetadata.Part, error) {
	r := s.Metadata
	r.Version, r.APIAccess = s.Version, s.APIAccess
	api, err := r.APIConfig()
	if err != nil {
		return nil, err
	}
	part, err := r.New(snapshotmetadata.Parts{
		Conn: s.Shared.Conn, API: api, Registry: p.registry, Drain: metadataDrain,
	})
	if err != nil {
		return nil, err
	}
	p.runs[compMetadata] = func(ctx context.Context) error {
		err := part.Run(ctx)
		if errors.Is(err, snapshots.ErrUnable) { // the others work, and the readiness says why this one does not
			logr.FromContextOrDiscard(ctx).Error(err, "--snapshot-metadata has no effect")
			<-ctx.Done()
			return nil
		}
		return err
	}
	return part, nil
}

// listen serves the health of one component at a port of its own, without metrics.
func (p *parts) listen(address, flag string, health http.Handler, longest time.Duration) {
	p.servers = append(p.servers, process.NewHTTPServer(process.HTTPConfig{
		Address: address, Flag: flag, Health: health, Longest: longest,
	}))
}

// serveAlone serves metrics and health of a process without controllers, until ctx ends.
func (s *Sidecars) serveAlone(ctx context.Context, p *parts, serve func(*process.HTTPServer)) error {
	measures := prometheus.Gatherers{ctrlmetrics.Registry, p.registry, s.Shared.Calls}
	server := process.NewHTTPServer(s.ServerConfig(measures, s.Spans, p.api))
	serve(server)
	if err := s.Listen(ctx, server); err != nil {
		return err
	}
	defer server.Stop()
	defer process.RunWithoutCaches(ctx, process.SaveMemoryAlone)()
	if s.Started != nil {
		s.Started()
	}
	return server.Start(ctx)
}

// restartAfter is the pause before a component that failed starts again.
const restartAfter = 5 * time.Second

// supervise runs a component until ctx ends, and starts it again when it fails or panics (OC-6, OC-12).
func supervise(ctx context.Context, name string, run func(context.Context) error) {
	log := logr.FromContextOrDiscard(ctx)
	for {
		err := recovered(ctx, run)
		if ctx.Err() != nil {
			return
		}
		log.Error(err, "a component ended; the others work, and it starts again",
			"component", name, "retryIn", restartAfter.String())
		select {
		case <-ctx.Done():
			return
		case <-time.After(restartAfter):
		}
	}
}

// recovered runs a component, and returns a panic as an error.
func recovered(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return run(ctx)
}
