package rules

import (
	"fmt"
	"math"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"
)

const (
	fixed    = csi.BlockMetadataType_FIXED_LENGTH
	variable = csi.BlockMetadataType_VARIABLE_LENGTH
)

// message returns a message of a volume of 100 bytes, with pairs of offset and size.
func message(kind csi.BlockMetadataType, pairs ...int64) Message {
	m := Message{Type: kind, Capacity: 100}
	for i := 0; i < len(pairs); i += 2 {
		m.Blocks = append(m.Blocks, Block{pairs[i], pairs[i+1]})
	}
	return m
}

// show returns messages as a text: the blocks of each one in brackets.
func show(all []Message) (text string) {
	for _, m := range all {
		text += fmt.Sprint(m.Blocks)
	}
	return text
}

// CB-13, CB-H4: what becomes of the messages of a driver.
func TestSequences(t *testing.T) {
	other := message(variable, 20, 10)
	other.Capacity = 200
	for _, tc := range []struct {
		row    string
		offset int64
		max    int32
		in     []Message
		want   string
		code   codes.Code
	}{
		{"CB-13 one message", 0, 0, []Message{message(variable, 0, 10, 20, 5)}, "[{0 10} {20 5}]", codes.OK},
		{"CB-13 two messages", 0, 0, []Message{message(variable, 0, 10), message(variable, 10, 5)}, "[{0 10}][{10 5}]", codes.OK},
		{"CB-13 nothing allocated", 0, 0, []Message{message(variable)}, "[]", codes.OK},
		{"CB-13 a later empty message", 0, 0, []Message{message(variable, 0, 10), message(variable)}, "[{0 10}][]", codes.OK},
		{"CB-13 cut to max_results", 0, 2, []Message{message(variable, 0, 1, 2, 1, 4, 1, 6, 1, 8, 1)}, "[{0 1} {2 1}][{4 1} {6 1}][{8 1}]", codes.OK},
		{"CB-13 exactly max_results", 0, 2, []Message{message(variable, 0, 1, 2, 1)}, "[{0 1} {2 1}]", codes.OK},
		{"CB-13 a block across the offset stays", 5, 0, []Message{message(fixed, 0, 10, 10, 10)}, "[{0 10} {10 10}]", codes.OK},
		{"CB-13 a block before the offset is left out", 10, 0, []Message{message(fixed, 0, 10, 10, 10)}, "[{10 10}]", codes.OK},
		{
			"CB-13 only blocks before the offset", 50, 0,
			[]Message{message(fixed, 0, 10), message(fixed, 10, 10), message(fixed, 50, 10)},
			"[][{50 10}]", codes.OK,
		},
		{"CB-H4 overlap", 0, 0, []Message{message(variable, 0, 10, 9, 5)}, "", codes.Internal},
		{"CB-H4 overlap of two messages", 0, 0, []Message{message(variable, 0, 10), message(variable, 9, 5)}, "[{0 10}]", codes.Internal},
		{"CB-H4 out of order", 0, 0, []Message{message(variable, 20, 10, 0, 5)}, "", codes.Internal},
		{"CB-H4 the same block twice", 0, 0, []Message{message(variable, 0, 10), message(variable, 0, 10)}, "[{0 10}]", codes.Internal},
		{"CB-H4 an empty block", 0, 0, []Message{message(variable, 0, 0)}, "", codes.Internal},
		{"CB-H4 a negative block", 0, 0, []Message{message(variable, 0, -1)}, "", codes.Internal},
		{"CB-H4 a negative offset", 0, 0, []Message{message(variable, -1, 5)}, "", codes.Internal},
		{"CB-H4 beyond 63 bits", 0, 0, []Message{message(variable, math.MaxInt64, 1)}, "", codes.Internal},
		{"CB-H4 another type", 0, 0, []Message{message(variable, 0, 10), message(fixed, 10, 10)}, "[{0 10}]", codes.Internal},
		{"CB-H4 another capacity", 0, 0, []Message{message(variable, 0, 10), other}, "[{0 10}]", codes.Internal},
		{"CB-H4 another size of fixed blocks", 0, 0, []Message{message(fixed, 0, 10), message(fixed, 10, 5)}, "[{0 10}]", codes.Internal},
	} {
		s := Sequence{Offset: tc.offset, MaxResults: tc.max}
		var sent []Message
		var refusal *Refusal
		for _, m := range tc.in {
			var next []Message
			if next, refusal = s.Next(m); refusal != nil {
				break
			}
			sent = append(sent, next...)
		}
		check(t, tc.row, refusal, tc.code, "")
		if got := show(sent); got != tc.want {
			t.Errorf("%s: %s is sent, want %s", tc.row, got, tc.want)
		}
	}
}

// CB-13: whatever a driver sends, a client gets blocks in order; and a client that resumes at the
// end of the last block that it got, after any message, has all of them in the end.
func TestResumedStreamsHaveAllBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Block
		at := int64(0)
		for range rapid.IntRange(0, 20).Draw(t, "blocks") {
			at += rapid.Int64Range(0, 3).Draw(t, "gap")
			size := rapid.Int64Range(1, 5).Draw(t, "size")
			all = append(all, Block{at, size})
			at += size
		}
		perMessage := rapid.IntRange(1, 7).Draw(t, "driver's page")
		var got []Block
		from := int64(0)
		for done := false; !done; {
			s := Sequence{Offset: from, MaxResults: rapid.Int32Range(0, 4).Draw(t, "max_results")}
			left := rapid.IntRange(1, 5).Draw(t, "messages until the connection is lost")
			done = true
			for i := 0; i < len(all) && done; i += perMessage { // a driver that ignores the offset
				page := all[i:min(i+perMessage, len(all))]
				messages, refusal := s.Next(Message{Type: variable, Capacity: 200, Blocks: page})
				if refusal != nil {
					t.Fatal(refusal)
				}
				for _, m := range messages {
					if most := int(s.MaxResults); most > 0 && len(m.Blocks) > most {
						t.Fatalf("%d blocks, max_results %d", len(m.Blocks), most)
					}
					got = append(got, m.Blocks...)
					if len(m.Blocks) > 0 {
						from = m.Blocks[len(m.Blocks)-1].end()
						left--
					}
					if left == 0 {
						done = false
						break
					}
				}
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Fatalf("got %v, want %v", got, all)
		}
	})
}

// CB-12: a message is never larger than what a client of gRPC receives.
func TestLargeMessagesAreCut(t *testing.T) {
	m := Message{Type: fixed, Capacity: 1 << 40}
	for i := range int64(2*MostBlocks + 1) {
		m.Blocks = append(m.Blocks, Block{i << 20, 1 << 20})
	}
	s := Sequence{}
	messages, refusal := s.Next(m)
	if refusal != nil || len(messages) != 3 || len(messages[2].Blocks) != 1 {
		t.Errorf("%d messages, %v", len(messages), refusal)
	}
}

// CB-13: how many blocks a message may have.
func TestMostBlocksInAMessage(t *testing.T) {
	for wanted, want := range map[int32]int32{0: MostBlocks, 7: 7, MostBlocks: MostBlocks, math.MaxInt32: MostBlocks} {
		if got := MostIn(wanted); got != want {
			t.Errorf("CB-13: %d for %d, want %d", got, wanted, want)
		}
	}
}
