package driver

import (
	"context"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/telemetry"
)

// Log levels: calls that change something or fail are always logged, frequent read-only calls at a
// higher level, and whole requests for debugging.
const (
	levelQuestion = 2
	levelRequest  = 5
)

// observe logs and counts each call, and passes the logger on in the context.
func observe(log logr.Logger, calls *Counter, metrics *telemetry.Served) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		method := path.Base(info.FullMethod)
		log := log.WithValues("method", method, "volume", fault.Clip(volumeIn(request), maxString))
		log.V(levelRequest).Info("CSI request", "request", redacted{request})
		start := time.Now()
		end := metrics.Begin(method)
		response, err := handle(logr.NewContext(ctx, log), request)
		code := status.Code(err)
		end(code.String())
		calls.add(method, code)
		logAnswer(log.WithValues("code", code.String(), "duration", time.Since(start)), method, err)
		return response, err
	}
}

func logAnswer(log logr.Logger, method string, err error) {
	switch {
	case status.Code(err) == codes.Internal:
		log.Error(err, "CSI call failed")
	case err != nil:
		log.Info("CSI call refused", "reason", status.Convert(err).Message())
	case isQuestion(method):
		log.V(levelQuestion).Info("CSI call")
	default:
		log.Info("CSI call")
	}
}

// isQuestion says whether a method changes nothing.
func isQuestion(method string) bool {
	return slices.ContainsFunc([]string{"Probe", "Get", "List", "Validate", "ControllerGet", "NodeGet"},
		func(prefix string) bool { return strings.HasPrefix(method, prefix) })
}

// volumeIn gives what the request says about which volume it is for.
func volumeIn(request any) string {
	switch r := request.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetName() string }:
		return r.GetName()
	default:
		return ""
	}
}

// recoverPanics turns a bug in one call into an error of that call. The stack
// goes to the log; the caller, who may show the text to users, gets the value.
func recoverPanics(
	ctx context.Context,
	request any,
	info *grpc.UnaryServerInfo,
	handle grpc.UnaryHandler,
) (response any, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fault.Internal.Errorf(
				"%s panicked: %v; this is a bug in the driver, its log has the stack",
				path.Base(info.FullMethod),
				value,
			)
			logr.FromContextOrDiscard(ctx).Error(err, "Recovered from a panic", "stack", string(debug.Stack()))
		}
	}()
	return handle(ctx, request)
}
