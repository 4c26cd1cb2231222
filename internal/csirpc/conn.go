package csirpc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/kubernetes-csi/csi-lib-utils/connection"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Config is the driver to connect to.
type Config struct {
	Endpoint string         // unix:///absolute/path or /absolute/path
	Timeout  time.Duration  // for each call that has no shorter deadline
	Metrics  *CallMetrics   // counts and times every call; nil for none
	Observe  func(Observed) // is called at the end of every call; nil for nothing
	Trace    stats.Handler  // traces every call; nil for nothing
}

// Conn is a connection to one driver. It is safe for concurrent use.
type Conn struct {
	grpc     *grpc.ClientConn
	timeout  time.Duration
	endpoint string
	metrics  *CallMetrics // nil for none
}

// Dial prepares the connection. It does not wait for the driver; see [Conn.WaitReady].
func Dial(cfg Config) (*Conn, error) {
	path, err := SocketPath(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	chain := []grpc.UnaryClientInterceptor{logCall}
	if cfg.Metrics != nil {
		chain = append(
			chain,
			connection.ExtendedCSIMetricsManager{CSIMetricsManager: cfg.Metrics}.RecordMetricsClientInterceptor,
		)
	}
	if cfg.Observe != nil {
		chain = append(chain, observe(cfg.Observe))
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket file has its own permissions
		grpc.WithIdleTimeout(0),                                  // an idle driver is not a lost one (ST-4)
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  100 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   time.Second,
			},
			MinConnectTimeout: time.Second,
		}),
		grpc.WithChainUnaryInterceptor(chain...),
	}
	if cfg.Trace != nil {
		options = append(options, grpc.WithStatsHandler(cfg.Trace))
	}
	conn, err := grpc.NewClient("unix://"+path, options...)
	if err != nil {
		return nil, fmt.Errorf("csi driver at %s: %w", cfg.Endpoint, err)
	}
	return &Conn{grpc: conn, timeout: cfg.Timeout, endpoint: cfg.Endpoint, metrics: cfg.Metrics}, nil
}

// SocketPath returns the path of a CSI endpoint, which must be a UNIX socket (F-42).
func SocketPath(endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf(
			"%q: must be an absolute path or unix:// with one, such as unix:///run/csi/socket", endpoint,
		)
	}
	return path, nil
}

// Close ends the connection; calls in flight fail.
func (c *Conn) Close() error { return c.grpc.Close() }

// Controller returns the client of the controller service.
func (c *Conn) Controller() csi.ControllerClient { return csi.NewControllerClient(c.grpc) }

// GroupController returns a client of the group controller service.
func (c *Conn) GroupController() csi.GroupControllerClient {
	return csi.NewGroupControllerClient(c.grpc)
}

// Node returns the client of the node service.
func (c *Conn) Node() csi.NodeClient { return csi.NewNodeClient(c.grpc) }

// SnapshotMetadata returns a client of the service of snapshot metadata.
func (c *Conn) SnapshotMetadata() csi.SnapshotMetadataClient {
	return csi.NewSnapshotMetadataClient(c.grpc)
}

// Timeout returns the bound of one call.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// The pause between two probes of a driver that is not ready grows from the first to the second
// (ST-5).
const (
	firstProbePause = 20 * time.Millisecond
	mostProbePause  = time.Second
)

// WaitReady probes until the driver is ready, or ctx ends. It calls each with the error of every
// failed probe.
func (c *Conn) WaitReady(ctx context.Context, each func(error)) error {
	for pause := firstProbePause; ; pause = min(2*pause, mostProbePause) {
		err := c.Probe(ctx)
		if err == nil {
			return nil
		}
		each(err)
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err() // the caller stopped waiting; the driver is not at fault
			}
			return fmt.Errorf("csi driver at %s is not ready: %w", c.endpoint, err)
		case <-time.After(pause):
		}
	}
}

var errNotReady = errors.New("the driver answers that it is not ready")

// Probe makes one Probe call. An answer without a value means that the driver is ready (ST-5).
func (c *Conn) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := csi.NewIdentityClient(c.grpc).Probe(ctx, &csi.ProbeRequest{})
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if ready := answer.GetReady(); ready != nil && !ready.GetValue() {
		return errNotReady
	}
	return nil
}

// logCall logs each call with its secrets stripped.
//
//nolint:revive // the arguments are those of a gRPC interceptor
func logCall(
	ctx context.Context,
	method string,
	req, reply any,
	cc *grpc.ClientConn,
	call grpc.UnaryInvoker,
	opts ...grpc.CallOption,
) error {
	log := logr.FromContextOrDiscard(ctx).V(5)
	log.Info("csi request", "rpc", method, "request", stripped{req})
	err := call(ctx, method, req, reply, cc, opts...)
	log.Info("csi response", "rpc", method, "response", stripped{reply}, "code", status.Code(err))
	return err
}

// WaitBroken returns nil when the connection, which was ready, is lost. It returns an error when
// ctx ends first.
func (c *Conn) WaitBroken(ctx context.Context) error {
	for c.grpc.GetState() == connectivity.Ready {
		if !c.grpc.WaitForStateChange(ctx, connectivity.Ready) {
			return ctx.Err()
		}
	}
	return ctx.Err()
}
