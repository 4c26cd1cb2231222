package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec encodes the messages of this package, and those of other services of the same server, such
// as grpc.health.v1.Health, as gRPC does.
type codec struct{ others encoding.CodecV2 }

// Codec returns the codec that a server or a connection of the service needs.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2(proto.Name)} }

// Name implements encoding.CodecV2. On the wire the encoding is that of protobuf.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.marshal())}, nil
	}
	return c.others.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(message); ok {
		return m.unmarshal(data.Materialize())
	}
	return c.others.Unmarshal(data, v)
}
