package wire

import (
	"errors"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// AllocatedRequest asks for the allocated blocks of a snapshot. It has a token: it must not be
// logged.
type AllocatedRequest struct {
	SecurityToken  string
	Namespace      string
	SnapshotName   string
	StartingOffset int64
	MaxResults     int32
}

// DeltaRequest asks for the blocks that differ between two snapshots. It has a token: it must not
// be logged.
type DeltaRequest struct {
	SecurityToken      string
	Namespace          string
	BaseSnapshotID     string // CSI handle
	TargetSnapshotName string
	StartingOffset     int64
	MaxResults         int32
}

// Response is a message of either stream.
type Response struct {
	BlockMetadataType   int32
	VolumeCapacityBytes int64
	BlockMetadata       []Block
}

// Block is a range of bytes.
type Block struct{ ByteOffset, SizeBytes int64 }

// message is a message of the service.
type message interface {
	marshal() []byte
	unmarshal(b []byte) error
}

func (r *AllocatedRequest) marshal() []byte {
	b := appendText(nil, 1, r.SecurityToken)
	b = appendText(b, 2, r.Namespace)
	b = appendText(b, 3, r.SnapshotName)
	b = appendNumber(b, 4, r.StartingOffset)
	return appendNumber(b, 5, int64(r.MaxResults))
}

func (r *AllocatedRequest) unmarshal(b []byte) error {
	*r = AllocatedRequest{}
	return decode(b, map[protowire.Number]any{
		1: &r.SecurityToken, 2: &r.Namespace, 3: &r.SnapshotName, 4: &r.StartingOffset, 5: &r.MaxResults,
	})
}

func (r *DeltaRequest) marshal() []byte {
	b := appendText(nil, 1, r.SecurityToken)
	b = appendText(b, 2, r.Namespace)
	b = appendText(b, 3, r.BaseSnapshotID)
	b = appendText(b, 4, r.TargetSnapshotName)
	b = appendNumber(b, 5, r.StartingOffset)
	return appendNumber(b, 6, int64(r.MaxResults))
}

func (r *DeltaRequest) unmarshal(b []byte) error {
	*r = DeltaRequest{}
	return decode(b, map[protowire.Number]any{
		1: &r.SecurityToken, 2: &r.Namespace, 3: &r.BaseSnapshotID, 4: &r.TargetSnapshotName, 5: &r.StartingOffset,
		6: &r.MaxResults,
	})
}

func (r *Response) marshal() []byte {
	b := appendNumber(nil, 1, int64(r.BlockMetadataType))
	b = appendNumber(b, 2, r.VolumeCapacityBytes)
	var one []byte
	for _, block := range r.BlockMetadata {
		one = appendNumber(appendNumber(one[:0], 1, block.ByteOffset), 2, block.SizeBytes)
		b = protowire.AppendBytes(protowire.AppendTag(b, 3, protowire.BytesType), one)
	}
	return b
}

func (r *Response) unmarshal(b []byte) error {
	*r = Response{}
	return decode(b, map[protowire.Number]any{
		1: &r.BlockMetadataType, 2: &r.VolumeCapacityBytes, 3: &r.BlockMetadata,
	})
}

// appendText appends a field; an empty one is left out, as in proto3.
func appendText(b []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, value int64) []byte {
	if value == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(value))
}

var errNotText = errors.New("a text field is not UTF-8")

// decode reads the fields of a message. Fields of other numbers or types are skipped, as in proto3.
func decode(b []byte, into map[protowire.Number]any) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if err := set(into[number], kind, b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// set sets a field from its value, which is complete.
func set(field any, kind protowire.Type, value []byte) error {
	switch kind {
	case protowire.VarintType:
		number, _ := protowire.ConsumeVarint(value)
		switch field := field.(type) {
		case *int64:
			*field = int64(number)
		case *int32:
			*field = int32(number & math.MaxUint32) // proto3 cuts to the lower 32 bits
		}
	case protowire.BytesType:
		bytes, _ := protowire.ConsumeBytes(value)
		switch field := field.(type) {
		case *string:
			if !utf8.Valid(bytes) {
				return errNotText
			}
			*field = string(bytes)
		case *[]Block:
			var block Block
			if err := decode(bytes, map[protowire.Number]any{
				1: &block.ByteOffset, 2: &block.SizeBytes,
			}); err != nil {
				return err
			}
			*field = append(*field, block)
		}
	default: // no field of the service has another type
	}
	return nil
}
