package snapshotmetadata

import (
	"context"
	"errors"
	"io"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/snapshotmetadata/rules"
	"github.com/purser-csi/purser/internal/snapshotmetadata/wire"
)

// mostOfDriver is the largest message that is received from the driver. The request limits its
// blocks: [rules.MostBlocks] take less than a third of this.
const mostOfDriver = 4 << 20

// source returns the next message of a driver; io.EOF after the last.
type source func() (rules.Message, error)

// answer is a message of either stream of a driver.
type answer interface {
	GetBlockMetadataType() csi.BlockMetadataType
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// openStream calls the driver.
func (s *Service) openStream(ctx context.Context, r rules.Request, t target) (source, error) {
	driver := s.cfg.Conn.SnapshotMetadata()
	most, large := rules.MostIn(r.MaxResults), grpc.MaxCallRecvMsgSize(mostOfDriver)
	if !r.IsDelta {
		stream, err := driver.GetMetadataAllocated(ctx, &csi.GetMetadataAllocatedRequest{
			SnapshotId: t.handle, StartingOffset: r.Offset, MaxResults: most, Secrets: t.secrets,
		}, large)
		if err != nil {
			return nil, err
		}
		return sourceOf(stream.Recv), nil
	}
	stream, err := driver.GetMetadataDelta(ctx, &csi.GetMetadataDeltaRequest{
		BaseSnapshotId: t.base, TargetSnapshotId: t.handle, StartingOffset: r.Offset, MaxResults: most,
		Secrets: t.secrets,
	}, large)
	if err != nil {
		return nil, err
	}
	return sourceOf(stream.Recv), nil
}

func sourceOf[A answer](receive func() (A, error)) source {
	return func() (rules.Message, error) {
		got, err := receive()
		if err != nil {
			return rules.Message{}, err
		}
		m := rules.Message{
			Type: got.GetBlockMetadataType(), Capacity: got.GetVolumeCapacityBytes(),
			Blocks: make([]rules.Block, 0, len(got.GetBlockMetadata())),
		}
		for _, b := range got.GetBlockMetadata() {
			m.Blocks = append(m.Blocks, rules.Block{Offset: b.GetByteOffset(), Size: b.GetSizeBytes()})
		}
		return m, nil
	}
}

// pass passes the driver's stream on. The driver is read again only after the client has taken what
// was sent, so a slow client holds up the driver (CB-12).
func (s *Service) pass(ctx context.Context, r rules.Request, t target, to wire.Stream) error {
	from, err := s.openStream(ctx, r, t)
	if err != nil {
		return ofDriver(err, t)
	}
	sequence := rules.Sequence{Offset: r.Offset, MaxResults: r.MaxResults}
	for {
		got, err := from()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return ofDriver(err, t)
		}
		messages, refusal := sequence.Next(got)
		if refusal != nil {
			return refusal
		}
		for _, m := range messages {
			if err := to.Send(response(m)); err != nil {
				return err
			}
		}
	}
}

func response(m rules.Message) *wire.Response {
	r := &wire.Response{
		BlockMetadataType: int32(m.Type), VolumeCapacityBytes: m.Capacity,
		BlockMetadata: make([]wire.Block, len(m.Blocks)),
	}
	for i, b := range m.Blocks {
		r.BlockMetadata[i] = wire.Block{ByteOffset: b.Offset, SizeBytes: b.Size}
	}
	return r
}

// ofDriver returns the error of a driver without its secrets.
func ofDriver(err error, t target) error {
	got := status.Convert(err)
	return rules.OfDriver(got.Code(), csirpc.Redact(got.Message(), t.secrets))
}
