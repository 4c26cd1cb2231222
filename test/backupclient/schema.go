package backupclient

import (
	"sync"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	text   = descriptorpb.FieldDescriptorProto_TYPE_STRING
	long   = descriptorpb.FieldDescriptorProto_TYPE_INT64
	number = descriptorpb.FieldDescriptorProto_TYPE_INT32
)

// field is a field of a message; its number is its place.
type field struct {
	name string
	kind descriptorpb.FieldDescriptorProto_Type
	of   string // the type of a message or an enum
	many bool
}

// messages are those of upstream's schema.proto.
var messages = map[string][]field{
	"BlockMetadata": {{name: "byte_offset", kind: long}, {name: "size_bytes", kind: long}},
	"GetMetadataAllocatedRequest": {
		{name: "security_token", kind: text},
		{name: "namespace", kind: text},
		{name: "snapshot_name", kind: text},
		{name: "starting_offset", kind: long},
		{name: "max_results", kind: number},
	},
	"GetMetadataDeltaRequest": {
		{name: "security_token", kind: text},
		{name: "namespace", kind: text},
		{name: "base_snapshot_id", kind: text},
		{name: "target_snapshot_name", kind: text},
		{name: "starting_offset", kind: long},
		{name: "max_results", kind: number},
	},
	"GetMetadataAllocatedResponse": answer,
	"GetMetadataDeltaResponse":     answer,
}

var answer = []field{
	{name: "block_metadata_type", kind: descriptorpb.FieldDescriptorProto_TYPE_ENUM, of: "BlockMetadataType"},
	{name: "volume_capacity_bytes", kind: long},
	{name: "block_metadata", kind: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, of: "BlockMetadata", many: true},
}

const protoPackage = "snapshotmetadata"

// Schema returns the descriptors of upstream's messages.
var Schema = sync.OnceValue(func() protoreflect.FileDescriptor {
	file := &descriptorpb.FileDescriptorProto{
		Name: new("schema.proto"), Package: new(protoPackage), Syntax: new("proto3"),
	}
	enum := &descriptorpb.EnumDescriptorProto{Name: new("BlockMetadataType")}
	for i, name := range []string{"UNKNOWN", "FIXED_LENGTH", "VARIABLE_LENGTH"} {
		enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{
			Name: new(name), Number: new(int32(i)),
		})
	}
	file.EnumType = append(file.EnumType, enum)
	for name, fields := range messages {
		message := &descriptorpb.DescriptorProto{Name: new(name)}
		for i, f := range fields {
			label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
			if f.many {
				label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
			}
			described := &descriptorpb.FieldDescriptorProto{
				Name: new(f.name), Number: new(int32(i + 1)), Type: f.kind.Enum(), Label: label.Enum(),
			}
			if f.of != "" {
				described.TypeName = new("." + protoPackage + "." + f.of)
			}
			message.Field = append(message.Field, described)
		}
		file.MessageType = append(file.MessageType, message)
	}
	built, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err) // the table above is wrong
	}
	return built
})
