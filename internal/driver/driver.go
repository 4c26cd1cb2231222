package driver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"google.golang.org/grpc"

	"github.com/purser-csi/purser/internal/driver/backend"

	"github.com/purser-csi/purser/internal/driver/records"
)

// Driver is a CSI plugin. It serves once: make a new one to serve again.
type Driver struct {
	config    Config
	features  features
	running   *InFlight
	published *records.PublicationStore
	staged    *records.StagingStore
	attached  *records.AttachmentStore
	calls     *Counter
	ready     chan struct{}
	// stopped is closed when the last call has ended.
	stopped chan struct{}
}

// New checks the whole configuration; its error lists every mistake. Nothing
// happens on disk before Run or Serve.
func New(config Config) (*Driver, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	features := featuresOf(config)
	return &Driver{
		config:   config,
		features: features,
		running:  NewInFlight(time.Now),
		published: records.NewPublicationStore(records.PublicationConfig{
			Dir:     filepath.Join(config.StateDir, "published"),
			Checker: features.publicationChecker(config.Mounter),
			Reserve: features.reserve,
		}),
		staged:   records.NewStagingStore(filepath.Join(config.StateDir, "stagings"), features.reserve),
		attached: records.NewAttachmentStore(filepath.Join(config.StateDir, "attached"), features.reserve),
		calls:    newCounter(),
		ready:    make(chan struct{}),
		stopped:  make(chan struct{}),
	}, nil
}

// Counter tells how often each method was answered with which code.
func (d *Driver) Counter() *Counter { return d.calls }

// Ready is closed when the driver accepts calls.
func (d *Driver) Ready() <-chan struct{} { return d.ready }

// Run serves on the endpoint until ctx is done, lets the calls in flight
// finish within StopTimeout, and removes the socket. It logs to the logger in
// ctx.
func (d *Driver) Run(ctx context.Context) error {
	return d.serve(ctx, func() (listener net.Listener, err error) {
		err = d.features.reserve.Do(func() (err error) {
			listener, err = Listen(ctx, d.config.socketPath())
			return err
		})
		return listener, err
	})
}

// Serve does what Run does, on a listener that the caller made instead of the
// endpoint. It closes the listener.
func (d *Driver) Serve(ctx context.Context, listener net.Listener) error {
	return d.serve(ctx, func() (net.Listener, error) { return listener, nil })
}

// serve locks the state before it makes the socket: of two drivers that start at once, only one may
// remove the socket of a killed predecessor.
func (d *Driver) serve(ctx context.Context, open func() (net.Listener, error)) error {
	unlock, err := lockState(d.config.StateDir)
	if err != nil {
		return err
	}
	listener, err := d.prepare(ctx, open)
	if err != nil {
		unlock()
		return err
	}
	err = errors.Join(d.serveOn(ctx, listener), d.closeBackend())
	select {
	case <-d.stopped:
		unlock()
	default:
		// A call that outlives the stop still changes the state: no other process
		// may have it until the call ends, or the process.
		go func() { <-d.stopped; unlock() }()
	}
	return err
}

func (d *Driver) prepare(ctx context.Context, open func() (net.Listener, error)) (net.Listener, error) {
	if err := d.recoverState(ctx); err != nil {
		return nil, fmt.Errorf("recover the state in %s: %w", d.config.StateDir, err)
	}
	return open()
}

func (d *Driver) recoverState(ctx context.Context) error {
	if recoverer, ok := d.config.Backend.(backend.Recoverer); ok {
		if err := recoverer.Recover(ctx); err != nil {
			return err
		}
	}
	if err := d.features.zones.recover(ctx, d.config.Backend); err != nil {
		return err
	}
	if err := d.staged.Recover(ctx); err != nil {
		return err
	}
	if reader, ok := d.config.Backend.(backend.StagingReader); ok {
		if err := d.staged.Heal(ctx, stagedBy(ctx, reader)); err != nil {
			return err
		}
	}
	if d.features.attaches {
		if err := d.attached.Recover(ctx); err != nil {
			return err
		}
	}
	return d.published.Recover(ctx)
}

// stagedBy returns the staging of a volume as the backend knows it.
func stagedBy(ctx context.Context, reader backend.StagingReader) func(backend.ID) (records.Staging, bool, error) {
	return func(id backend.ID) (records.Staging, bool, error) {
		staged, found, err := reader.StagedAs(ctx, id)
		return records.Staging{Volume: id, Path: staged.Path, Type: staged.Capability.Type}, found, err
	}
}

func (d *Driver) serveOn(ctx context.Context, listener net.Listener) error {
	log := logr.FromContextOrDiscard(ctx)
	server := d.newServer(log)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	log.Info("Serving CSI", "address", listener.Addr().String(), "driver", d.config.Name, "node", d.config.NodeID)
	close(d.ready)
	select {
	case err := <-failed:
		go func() {
			server.GracefulStop()
			close(d.stopped)
		}()
		server.Stop()
		return fmt.Errorf("serve CSI: %w", err)
	case <-ctx.Done():
		return d.stop(server)
	}
}

// closeBackend comes after the waiting for calls, whether they ended or not.
func (d *Driver) closeBackend() error {
	closer, ok := d.config.Backend.(backend.Closer)
	if !ok {
		return nil
	}
	if err := closer.Close(); err != nil {
		return fmt.Errorf("close the backend: %w", err)
	}
	return nil
}

func (d *Driver) newServer(log logr.Logger) *grpc.Server {
	layers := inLayers(observe(log, d.calls, d.config.Metrics), toStatusInterceptor, recoverPanics)
	options := []grpc.ServerOption{grpc.UnaryInterceptor(layers), grpc.StreamInterceptor(streamed(layers))}
	if d.config.Trace != nil {
		options = append(options, grpc.StatsHandler(d.config.Trace))
	}
	server := grpc.NewServer(options...)
	node := &nodeService{
		nodeID:    d.config.NodeID,
		rules:     d.config.Backend,
		features:  d.features,
		mounter:   d.config.Mounter,
		published: d.published,
		staged:    d.staged,
	}
	controller := &controllerService{
		backend: d.config.Backend, features: d.features, node: node,
		attached: d.attached, reach: reachOf(d.config),
	}
	csi.RegisterIdentityServer(server, &identityServer{config: d.config, features: d.features})
	csi.RegisterControllerServer(server, &controllerServer{service: controller, running: d.running})
	csi.RegisterNodeServer(server, &nodeServer{service: node, running: d.running})
	if d.features.grouper != nil {
		csi.RegisterGroupControllerServer(server, &groupServer{service: controller, running: d.running})
	}
	if d.features.surveyor != nil {
		csi.RegisterSnapshotMetadataServer(server, &surveyServer{service: controller, running: d.running})
	}
	return server
}

// stop closes the listener at once, which also removes the socket. The
// waiting has its own bound because grpc waits for handlers without one.
func (d *Driver) stop(server *grpc.Server) error {
	go func() {
		server.GracefulStop()
		close(d.stopped)
	}()
	bound := time.NewTimer(d.config.StopTimeout)
	defer bound.Stop()
	select {
	case <-d.stopped:
		return nil
	case <-bound.C:
		go server.Stop() // cancels the contexts of the calls
		return fmt.Errorf("stop the CSI server: calls were still running after %s", d.config.StopTimeout)
	}
}
