package wire

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/purser-csi/purser/test/backupclient"
)

// encode returns a message of upstream's schema with fields, as protobuf encodes it.
func encode(t *testing.T, name string, fields map[string]any) []byte {
	t.Helper()
	m := backupclient.New(name)
	for field, value := range fields {
		backupclient.Set(m, field, value)
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// CB-24, CB-25: the requests of upstream's schema are read, and written as protobuf writes them.
func TestRequestsAreThoseOfUpstream(t *testing.T) {
	for _, tc := range []struct {
		row, name string
		fields    map[string]any
		got       message
		want      message
	}{
		{"CB-24", "GetMetadataAllocatedRequest", map[string]any{
			"security_token": "t", "namespace": "shop", "snapshot_name": "monday", "starting_offset": int64(1 << 40),
			"max_results": int32(7),
		}, &AllocatedRequest{}, &AllocatedRequest{"t", "shop", "monday", 1 << 40, 7}},
		{"CB-24 negative numbers", "GetMetadataAllocatedRequest", map[string]any{
			"starting_offset": int64(-1), "max_results": int32(math.MinInt32),
		}, &AllocatedRequest{}, &AllocatedRequest{StartingOffset: -1, MaxResults: math.MinInt32}},
		{"CB-24 empty", "GetMetadataAllocatedRequest", nil, &AllocatedRequest{Namespace: "left over"}, &AllocatedRequest{}},
		{"CB-25", "GetMetadataDeltaRequest", map[string]any{
			"security_token": "t", "namespace": "shop", "base_snapshot_id": "h", "target_snapshot_name": "monday",
			"starting_offset": int64(5),
			"max_results":     int32(7),
		}, &DeltaRequest{}, &DeltaRequest{"t", "shop", "h", "monday", 5, 7}},
	} {
		b := encode(t, tc.name, tc.fields)
		if err := tc.got.unmarshal(b); err != nil {
			t.Errorf("%s: %v", tc.row, err)
		}
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s: %s", tc.row, diff)
		}
		if again := tc.want.marshal(); !bytes.Equal(again, b) {
			t.Errorf("%s: written as %x, want %x", tc.row, again, b)
		}
	}
}

// CB-26: an answer is what upstream's client reads.
func TestAnswersAreThoseOfUpstream(t *testing.T) {
	for _, name := range []string{"GetMetadataAllocatedResponse", "GetMetadataDeltaResponse"} {
		r := &Response{
			BlockMetadataType: 2, VolumeCapacityBytes: 1 << 40, BlockMetadata: []Block{{0, 4096}, {1 << 39, 1 << 20}},
		}
		m := backupclient.New(name)
		if err := proto.Unmarshal(r.marshal(), m); err != nil {
			t.Fatal(err)
		}
		want := backupclient.Record{
			Type: 2, Capacity: 1 << 40, Blocks: []backupclient.Block{{Size: 4096}, {Offset: 1 << 39, Size: 1 << 20}},
		}
		if diff := cmp.Diff(want, backupclient.RecordOf(m)); diff != "" || len(m.GetUnknown()) > 0 {
			t.Errorf("%s: %s, unknown %x", name, diff, m.GetUnknown())
		}
		var again Response
		if err := again.unmarshal(r.marshal()); err != nil || !cmp.Equal(*r, again) {
			t.Errorf("%s: read as %+v, %v", name, again, err)
		}
	}
}

// A field that is not known, or has another type, is skipped; half a message and a text that is not
// UTF-8 are errors.
func TestForeignFields(t *testing.T) {
	known := slices.Clip((&AllocatedRequest{Namespace: "shop"}).marshal())
	for _, tc := range []struct {
		what  string
		bytes []byte
		fails bool
	}{
		{"a new field", protowire.AppendString(protowire.AppendTag(known, 99, protowire.BytesType), "x"), false},
		{"a fixed number", protowire.AppendFixed64(protowire.AppendTag(known, 4, protowire.Fixed64Type), 7), false},
		{"a number in place of a text", protowire.AppendVarint(protowire.AppendTag(known, 1, protowire.VarintType), 7), false},
		{"half a field", known[:len(known)-1], true},
		{"no tag", []byte{0xff}, true},
		{"not UTF-8", protowire.AppendBytes(protowire.AppendTag(known, 1, protowire.BytesType), []byte{0xff}), true},
	} {
		var r AllocatedRequest
		err := r.unmarshal(tc.bytes)
		if (err != nil) != tc.fails || err == nil && r != (AllocatedRequest{Namespace: "shop"}) {
			t.Errorf("%s: %+v, %v", tc.what, r, err)
		}
	}
}

// FuzzRequests: a request is read as protobuf reads it.
func FuzzRequests(f *testing.F) {
	f.Add((&DeltaRequest{"t", "shop", "h", "monday", 5, 7}).marshal())
	f.Add([]byte{0x28, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var got DeltaRequest
		own := got.unmarshal(b)
		m := backupclient.New("GetMetadataDeltaRequest")
		theirs := proto.Unmarshal(b, m)
		if (own == nil) != (theirs == nil) {
			t.Fatalf("%v, protobuf: %v", own, theirs)
		}
		if own != nil {
			return
		}
		want := DeltaRequest{
			SecurityToken: textOf(m, "security_token"), Namespace: textOf(m, "namespace"),
			BaseSnapshotID:     textOf(m, "base_snapshot_id"),
			TargetSnapshotName: textOf(m, "target_snapshot_name"), StartingOffset: numberOf(m, "starting_offset"),
			MaxResults: int32(numberOf(m, "max_results")),
		}
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func textOf(m *dynamicpb.Message, field string) string {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).String()
}

func numberOf(m *dynamicpb.Message, field string) int64 {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(field))).Int()
}

// The codec passes the messages of other services on.
func TestCodecOfOtherServices(t *testing.T) {
	other := backupclient.New("BlockMetadata")
	backupclient.Set(other, "size_bytes", int64(5))
	b, err := Codec().Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	again := backupclient.New("BlockMetadata")
	if err := Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(b.Materialize())}, again); err != nil ||
		!proto.Equal(other, again) {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := Codec().Marshal("no message"); err == nil || !strings.Contains(err.Error(), "proto") {
		t.Errorf("a text: %v", err)
	}
}
