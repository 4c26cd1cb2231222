package rules

import (
	"math"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// Block is a range of bytes of a snapshot.
type Block struct{ Offset, Size int64 }

// end returns the offset after the block.
func (b Block) end() int64 { return b.Offset + b.Size }

// Message is one message of a stream.
type Message struct {
	Type     csi.BlockMetadataType
	Capacity int64
	Blocks   []Block
}

// MostBlocks is how many blocks a message has at most. They take less than a third of what a gRPC
// client receives by default, which is 4 MiB.
const MostBlocks = 50_000

// Sequence checks the messages of one stream of a driver (CB-13), which upstream passes on
// unchecked: a client that resumes at the end of the last block would miss blocks that are out of
// order.
type Sequence struct {
	Offset     int64 // that the request begins at
	MaxResults int32 // of the request; 0 for any number

	started  bool
	kind     csi.BlockMetadataType
	capacity int64
	size     int64 // of all blocks of a fixed length; 0 if none was seen
	end      int64 // of the last block
}

// Next returns the messages to send for a message of the driver. They have the blocks that end
// after the offset of the request, and not more of them than the request wants.
func (s *Sequence) Next(m Message) ([]Message, *Refusal) {
	if s.started && (m.Type != s.kind || m.Capacity != s.capacity) {
		return nil, broken("a stream of type %s and %d bytes goes on as type %s and %d bytes",
			s.kind, s.capacity, m.Type, m.Capacity)
	}
	first := !s.started
	s.started, s.kind, s.capacity = true, m.Type, m.Capacity
	blocks := make([]Block, 0, len(m.Blocks))
	for _, b := range m.Blocks {
		if refusal := s.add(b); refusal != nil {
			return nil, refusal
		}
		if b.end() > s.Offset {
			blocks = append(blocks, b)
		}
	}
	if len(m.Blocks) > 0 && len(blocks) == 0 && !first {
		return nil, nil // the first message has the type and the capacity already
	}
	m.Blocks = blocks
	return split(m, int(MostIn(s.MaxResults))), nil
}

// add checks a block against the one before.
func (s *Sequence) add(b Block) *Refusal {
	switch {
	case b.Offset < 0 || b.Size <= 0 || b.Offset > math.MaxInt64-b.Size:
		return broken("a block of %d bytes at %d", b.Size, b.Offset)
	case b.Offset < s.end:
		return broken("a block at %d comes after one that ends at %d", b.Offset, s.end)
	case s.kind == csi.BlockMetadataType_FIXED_LENGTH && s.size != 0 && b.Size != s.size:
		return broken("a block of %d bytes comes after one of %d, and the type is %s", b.Size, s.size, s.kind)
	}
	s.end, s.size = b.end(), b.Size
	return nil
}

// MostIn returns how many blocks a message may have, for the number that a request wants at most; 0
// for any number.
func MostIn(maxResults int32) int32 {
	if maxResults > 0 && maxResults < MostBlocks {
		return maxResults
	}
	return MostBlocks
}

// split returns messages with at most so many blocks each.
func split(m Message, most int) []Message {
	rest := m.Blocks
	var all []Message
	for len(rest) > most {
		m.Blocks, rest = rest[:most], rest[most:]
		all = append(all, m)
	}
	m.Blocks = rest
	return append(all, m)
}

func broken(format string, args ...any) *Refusal {
	return refuse(codes.Internal, "the CSI driver breaks the contract of its stream: "+format, args...)
}
