package csirpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// observe returns an interceptor that reports each call with the code of its answer.
func observe(report func(method, code string, took time.Duration)) grpc.UnaryClientInterceptor {
	return func(
		ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, send grpc.UnaryInvoker,
		options ...grpc.CallOption,
	) error {
		began := time.Now()
		err := send(ctx, method, request, reply, conn, options...)
		report(method, status.Code(err).String(), time.Since(began))
		return err
	}
}
