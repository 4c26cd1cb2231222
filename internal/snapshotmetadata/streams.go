package snapshotmetadata

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/snapshotmetadata/wire"
)

// The limits of clients that are not known yet (CB-H4). A token is in the first message of a
// stream, so they hold for every client that reaches the port.
const (
	mostOfClient     = 64 << 10 // bytes of a request
	mostOfHeaders    = 64 << 10 // bytes of the headers of a request
	mostOfConnection = 64       // streams of one connection
	mostOfServer     = 1024     // streams of all connections
	// mostConnections is how many connections are open; more wait to be accepted. Each takes about 100 KiB.
	mostConnections = 256
	handshakeWait   = 20 * time.Second
	// longestIdle is how long a connection may have no stream, from its begin on.
	longestIdle = time.Minute
	// longestWait is how long a stream waits for its request, and a request for its reviews.
	longestWait = 15 * time.Second
)

// How a connection whose client is gone is found.
const (
	keepaliveEvery = time.Minute
	keepaliveWait  = 20 * time.Second
)

// newServer returns the gRPC server. A connection ends after the longest duration of one stream, and
// its streams have that time once more.
func (s *Service) newServer() *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(credentials.NewTLS(s.cfg.TLS)), grpc.ForceServerCodecV2(wire.Codec()),
		grpc.MaxRecvMsgSize(mostOfClient), grpc.MaxHeaderListSize(mostOfHeaders),
		grpc.MaxConcurrentStreams(mostOfConnection), grpc.ConnectionTimeout(handshakeWait),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepaliveEvery, Timeout: keepaliveWait, MaxConnectionIdle: cmp.Or(s.cfg.idle, longestIdle),
			MaxConnectionAge: s.cfg.Longest, MaxConnectionAgeGrace: s.cfg.Longest,
		}),
		grpc.StreamInterceptor(s.limitStream),
	)
}

// limitStream refuses a stream beyond those of the server, and bounds the wait for its request.
func (s *Service) limitStream(
	server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	select {
	case s.limits.streams <- struct{}{}:
	default:
		return status.Errorf(codes.ResourceExhausted,
			"the server has %d streams open; try again when one has ended", cap(s.limits.streams))
	}
	defer func() { <-s.limits.streams }()
	return handle(server, promptStream{stream, s.wait()})
}

// wait returns how long a client is waited for, and how long it waits for its reviews.
func (s *Service) wait() time.Duration { return cmp.Or(s.cfg.wait, longestWait) }

// promptStream is a stream whose client must send its request within a time.
type promptStream struct {
	grpc.ServerStream

	most time.Duration
}

// RecvMsg implements grpc.ServerStream. It returns when the time is over; the goroutine that
// receives ends with the stream, which the handler ends by its error.
func (p promptStream) RecvMsg(into any) error {
	ctx, cancel := context.WithTimeout(p.Context(), p.most)
	defer cancel()
	received := make(chan error, 1)
	go func() { received <- p.ServerStream.RecvMsg(into) }()
	select {
	case err := <-received:
		return err
	case <-ctx.Done():
		if p.Context().Err() != nil {
			return status.FromContextError(p.Context().Err()).Err()
		}
		return status.Errorf(codes.DeadlineExceeded, "no request within %s", p.most)
	}
}
