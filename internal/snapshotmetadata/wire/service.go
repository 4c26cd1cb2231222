package wire

import (
	"context"

	"google.golang.org/grpc"
)

// Name is the name of the service.
const Name = "snapshotmetadata.SnapshotMetadata"

// The methods of the service.
const (
	MethodAllocated = "GetMetadataAllocated"
	MethodDelta     = "GetMetadataDelta"
)

// Stream takes the messages of an answer. Send blocks while the client does not read.
type Stream interface {
	Context() context.Context
	Send(r *Response) error
}

// Server answers the requests of the service.
type Server interface {
	GetMetadataAllocated(r *AllocatedRequest, to Stream) error
	GetMetadataDelta(r *DeltaRequest, to Stream) error
}

// Register adds the service to a gRPC server, which needs [Codec].
func Register(to grpc.ServiceRegistrar, s Server) {
	to.RegisterService(&grpc.ServiceDesc{
		ServiceName: Name, HandlerType: (*Server)(nil), Metadata: "schema.proto",
		Streams: []grpc.StreamDesc{
			{StreamName: MethodAllocated, ServerStreams: true, Handler: handler(Server.GetMetadataAllocated)},
			{StreamName: MethodDelta, ServerStreams: true, Handler: handler(Server.GetMetadataDelta)},
		},
	}, s)
}

// handler returns the handler of a method with one request.
func handler[R any](method func(Server, *R, Stream) error) grpc.StreamHandler {
	return func(server any, stream grpc.ServerStream) error {
		var request R
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		return method(server.(Server), &request, sender{stream}) //nolint:forcetypeassert // HandlerType
	}
}

type sender struct{ grpc.ServerStream }

// Send implements Stream.
func (s sender) Send(r *Response) error { return s.SendMsg(r) }
