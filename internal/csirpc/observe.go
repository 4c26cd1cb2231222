package csirpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/csispec"
)

// Observed is a call that has ended.
type Observed struct {
	Method string // the full name, such as /csi.v1.Controller/CreateVolume
	Code   string // of the answer, such as OK
	Volume string // the name of the volume to create, or its handle; empty for a call about none
	Began  time.Time
	Took   time.Duration
}

// observe returns an interceptor that reports each call with the code of its answer.
func observe(report func(Observed)) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		began := time.Now()
		err := send(ctx, method, request, reply, conn, options...)
		report(Observed{
			Method: method, Code: status.Code(err).String(), Volume: csispec.VolumeOf(request), Began: began,
			Took: time.Since(began),
		})
		return err
	}
}
