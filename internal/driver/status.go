package driver

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// codeOf is the "Error Scheme" of the CSI spec together with the error tables
// of the single RPCs. The condition is the error's kind; which code it has
// is decided here and nowhere else.
var codeOf = map[fault.Kind]codes.Code{
	fault.Internal:     codes.Internal,
	fault.Invalid:      codes.InvalidArgument,
	fault.NotFound:     codes.NotFound,
	fault.Incompatible: codes.AlreadyExists,
	fault.InUse:        codes.FailedPrecondition,
	fault.Unsupported:  codes.FailedPrecondition,
	fault.Unready:      codes.FailedPrecondition,
	fault.OutOfRange:   codes.OutOfRange,
	fault.Exhausted:    codes.ResourceExhausted,
	fault.Busy:         codes.Aborted,
	fault.BadToken:     codes.Aborted,
}

// toStatusInterceptor is the edge: below it errors have kinds, above it codes.
func toStatusInterceptor(
	ctx context.Context,
	request any,
	_ *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (any, error) {
	response, err := handle(ctx, request)
	if err != nil {
		return nil, toStatus(err)
	}
	return response, nil
}

// maxMessage bounds what an error may echo of a request or of the output of a program. It ends up in
// headers of HTTP/2, in events and in logs.
const maxMessage = 4 << 10

// toStatus gives an error its code. Details stay empty, as "Error Scheme"
// demands. What already is a status comes from the generated servers:
// UNIMPLEMENTED.
func toStatus(err error) error {
	if _, isStatus := status.FromError(err); isStatus {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	return status.Error(codeOf[fault.KindOf(err)], fault.Clip(fault.OneLine(err.Error()), maxMessage))
}
