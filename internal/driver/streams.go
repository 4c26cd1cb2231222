package driver

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/purser-csi/purser/internal/driver/fault"
)

// inLayers makes one interceptor of several, the outermost first.
func inLayers(all ...grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		for _, layer := range slices.Backward(all) {
			inner := handle
			handle = func(ctx context.Context, request any) (any, error) { return layer(ctx, request, info, inner) }
		}
		return handle(ctx, request)
	}
}

// streamed applies the unary interceptors to streaming calls. Every streaming call of CSI has one
// request, which is received here, so that the interceptors see it.
func streamed(layers grpc.UnaryServerInterceptor) grpc.StreamServerInterceptor {
	return func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		request, err := newRequest(info.FullMethod)
		if err != nil {
			return toStatus(err)
		}
		if err := stream.RecvMsg(request); err != nil {
			return err
		}
		_, err = layers(stream.Context(), request, &grpc.UnaryServerInfo{Server: server, FullMethod: info.FullMethod},
			func(ctx context.Context, _ any) (any, error) {
				return nil, handle(server, &received{ServerStream: stream, ctx: ctx, request: request})
			})
		return err
	}
}

// newRequest makes the empty message that a method is called with.
func newRequest(method string) (proto.Message, error) {
	name := strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", ".")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fault.Internal.Errorf("the description of %s: %w", method, err)
	}
	description, is := found.(protoreflect.MethodDescriptor)
	if !is {
		return nil, fault.Internal.Errorf("%s is not a method", method)
	}
	message, err := protoregistry.GlobalTypes.FindMessageByName(description.Input().FullName())
	if err != nil {
		return nil, fault.Internal.Errorf("the request of %s: %w", method, err)
	}
	return message.New().Interface(), nil
}

// received is a stream whose request was taken from it, and whose context is
// the one that the layers made.
type received struct {
	grpc.ServerStream
	ctx     context.Context //nolint:containedctx // a stream is asked for its context
	request proto.Message
}

func (r *received) Context() context.Context { return r.ctx }

// RecvMsg gives the request; the generated server asks for it once.
func (r *received) RecvMsg(into any) error {
	message, is := into.(proto.Message)
	if !is {
		return fault.Internal.Errorf("a request of the type %T", into)
	}
	proto.Reset(message)
	proto.Merge(message, r.request)
	return nil
}
