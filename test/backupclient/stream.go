package backupclient

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Request is what a backup program wants to know.
type Request struct {
	Token     string
	Namespace string
	Snapshot  string
	Base      string // CSI handle; empty for the allocated blocks
	Offset    int64
	Max       int32
}

// Block is a range of bytes.
type Block struct{ Offset, Size int64 }

// Record is one message of a stream.
type Record struct {
	Type     int32
	Capacity int64
	Blocks   []Block
}

// New returns an empty message of the schema.
func New(name string) *dynamicpb.Message {
	return dynamicpb.NewMessage(Schema().Messages().ByName(protoreflect.Name(name)))
}

// Set sets a field of a message.
func Set(m *dynamicpb.Message, field string, value any) {
	m.Set(m.Descriptor().Fields().ByName(protoreflect.Name(field)), protoreflect.ValueOf(value))
}

// message returns the request, and the name of its method.
func (r Request) message() (m *dynamicpb.Message, method string) {
	if r.Base == "" {
		m, method = New("GetMetadataAllocatedRequest"), "GetMetadataAllocated"
		Set(m, "snapshot_name", r.Snapshot)
	} else {
		m, method = New("GetMetadataDeltaRequest"), "GetMetadataDelta"
		Set(m, "base_snapshot_id", r.Base)
		Set(m, "target_snapshot_name", r.Snapshot)
	}
	Set(m, "security_token", r.Token)
	Set(m, "namespace", r.Namespace)
	Set(m, "starting_offset", r.Offset)
	Set(m, "max_results", r.Max)
	return m, method
}

// Stream calls each with the records of a stream, in order. The first error ends it, as upstream's
// iterator.
func Stream(ctx context.Context, conn grpc.ClientConnInterface, r Request, each func(Record) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, method := r.message()
	stream, err := conn.NewStream(
		ctx, &grpc.StreamDesc{StreamName: method, ServerStreams: true}, "/"+protoPackage+".SnapshotMetadata/"+method,
	)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // RecvMsg has the error
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		got := New(method + "Response")
		switch err := stream.RecvMsg(got); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(RecordOf(got)); err != nil {
			return err
		}
	}
}

// RecordOf returns the content of an answer.
func RecordOf(m *dynamicpb.Message) Record {
	value := func(m protoreflect.Message, field string) protoreflect.Value {
		return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field)))
	}
	r := Record{
		Type: int32(value(m, "block_metadata_type").Enum()), Capacity: value(m, "volume_capacity_bytes").Int(),
	}
	blocks := value(m, "block_metadata").List()
	for i := range blocks.Len() {
		b := blocks.Get(i).Message()
		r.Blocks = append(r.Blocks, Block{value(b, "byte_offset").Int(), value(b, "size_bytes").Int()})
	}
	return r
}

// Collect returns all blocks of a stream.
func Collect(ctx context.Context, conn grpc.ClientConnInterface, r Request) (blocks []Block, err error) {
	err = Stream(ctx, conn, r, func(record Record) error {
		blocks = append(blocks, record.Blocks...)
		return nil
	})
	return blocks, err
}
