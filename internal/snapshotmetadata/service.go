package snapshotmetadata

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/snapshotmetadata/wire"
)

// Config is what a service needs.
type Config struct {
	Conn    *csirpc.Conn
	Reviews Reviewer
	Objects client.Reader // whose reads are live
	TLS     *tls.Config

	Audience string        // of tokens; empty for that of the SnapshotMetadataService
	Longest  time.Duration // of one stream
	Timeout  time.Duration // of one call that asks the driver what it is
	Drain    time.Duration // for open streams at the end; 0 for Longest
	// Ended is called at the end of each request; nil for nothing.
	Ended func(driver, method string, code codes.Code, took time.Duration)

	// Tests set these; 0 for longestWait, longestIdle and mostConnections.
	wait, idle  time.Duration
	connections int
}

// Service is the service of one driver.
type Service struct {
	cfg    Config
	log    logr.Logger
	limits *limits
	health *health.Server
	server *grpc.Server

	mu      sync.Mutex
	name    string // of the driver; empty until it is known
	serving bool
	problem error // why it does not serve
}

// ErrUnable means that the driver has no service of snapshot metadata.
var ErrUnable = errors.New("the driver does not have the capability SNAPSHOT_METADATA_SERVICE")

// New returns a service that does not listen yet.
func New(ctx context.Context, cfg Config) *Service {
	s := &Service{
		cfg: cfg, log: logr.FromContextOrDiscard(ctx), limits: newLimits(), health: health.NewServer(),
		problem: errors.New("the driver has not answered yet"),
	}
	s.server = s.newServer()
	wire.Register(s.server, s)
	healthv1.RegisterHealthServer(s.server, s.health)
	s.set("", false, s.problem)
	return s
}

// Run serves on the listener until ctx ends, and then until the streams have ended, which takes
// Config.Drain at most (CB-11, CB-21). It returns [ErrUnable] for a driver without the
// capability.
func (s *Service) Run(ctx context.Context, listener net.Listener) error {
	failed := make(chan error, 1)
	bounded := netutil.LimitListener(listener, cmp.Or(s.cfg.connections, mostConnections))
	go func() { failed <- s.server.Serve(bounded) }()
	s.log.Info("GRPC server started listening on port", "address", listener.Addr().String())
	defer s.stop()
	prepared := make(chan error, 1)
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { prepared <- s.prepare(asking) }()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return fmt.Errorf("serve: %w", err)
		case err := <-prepared:
			if err != nil && ctx.Err() == nil {
				s.set("", false, err)
				return err
			}
		}
	}
}

// stop ends the server. A problem that ended it stays the one that [Service.Check] returns.
func (s *Service) stop() {
	if driver, isReady := s.ready(); isReady {
		s.set(driver, false, errors.New("the service is stopping"))
	}
	late := time.AfterFunc(cmp.Or(s.cfg.Drain, s.cfg.Longest), s.server.Stop)
	defer late.Stop()
	s.server.GracefulStop()
}

// sayEvery is how often the log says that the driver does not answer.
const sayEvery = 10 * time.Second

// prepare waits without a limit until the driver is ready, and asks for its capabilities (CB-11).
func (s *Service) prepare(ctx context.Context) error {
	said := time.Now()
	say := func(err error) {
		s.set(s.driver(), false, err)
		if time.Since(said) > sayEvery {
			said = time.Now()
			s.log.Info("the CSI driver is not yet ready", "problem", err.Error())
		}
	}
	for {
		name, err := s.cfg.Conn.Name(ctx, s.cfg.Timeout)
		if err == nil {
			s.log.Info("CSI driver name", "driver", name)
			s.set(name, false, errors.New("the driver is not ready"))
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		say(err)
		if !pause(ctx) {
			return ctx.Err()
		}
	}
	for {
		if err := s.cfg.Conn.WaitReady(ctx, say); err != nil {
			return err
		}
		driver, err := s.cfg.Conn.Describe(ctx)
		switch {
		case err == nil && !driver.Plugin[csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE]:
			return fmt.Errorf("csi driver %s: %w", driver.Name, ErrUnable)
		case err == nil:
			s.set(driver.Name, true, nil)
			s.log.Info("Setting status to SERVING", "driver", driver.Name)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		say(err)
		if !pause(ctx) {
			return ctx.Err()
		}
	}
}

// pause waits before the driver is asked once more. It returns false if ctx has ended.
func pause(ctx context.Context) bool {
	select {
	case <-time.After(time.Second):
		return true
	case <-ctx.Done():
		return false
	}
}

// set says what is known of the driver, and whether requests are served.
func (s *Service) set(driver string, serving bool, problem error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.serving, s.problem = driver, serving, problem
	state := healthv1.HealthCheckResponse_NOT_SERVING
	if serving {
		state = healthv1.HealthCheckResponse_SERVING
	}
	s.health.SetServingStatus("", state)
	s.health.SetServingStatus(wire.Name, state)
}

// driver returns the name of the driver; empty if it is not known.
func (s *Service) driver() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name
}

// ready returns the name of the driver, and whether requests are served.
func (s *Service) ready() (driver string, isReady bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.name, s.serving
}

// Check returns nil when requests are served (CB-19).
func (s *Service) Check(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving {
		return nil
	}
	return fmt.Errorf("not ready: %w", s.problem)
}
