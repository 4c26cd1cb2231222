package sanity

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// csi-sanity knows the SnapshotMetadata service and tests nothing of it, so a
// caller of the whole driver stands here.
func TestChangedBlocksOfLoopImages(t *testing.T) {
	dir := shortDir(t)
	startDriver(t, dir, loopImages(t, filesystem.Default, 4, 8))
	connection, err := grpc.NewClient("unix://"+socketIn(dir), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	controller, metadata := csi.NewControllerClient(connection), csi.NewSnapshotMetadataClient(connection)
	made, err := controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: size},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "state", "volumes", made.GetVolume().GetVolumeId(), "image")
	snapshotAfter := func(name string, at int64) string {
		put(t, image, at)
		response, err := controller.CreateSnapshot(t.Context(), &csi.CreateSnapshotRequest{Name: name, SourceVolumeId: made.GetVolume().GetVolumeId()})
		if err != nil {
			t.Fatal(err)
		}
		return response.GetSnapshot().GetSnapshotId()
	}
	base, target := snapshotAfter("base", 1<<20), snapshotAfter("target", 2<<20)
	allocated, err := metadata.GetMetadataAllocated(t.Context(), &csi.GetMetadataAllocatedRequest{SnapshotId: target, MaxResults: 1})
	wantOffsets(t, allocated, err, 1<<20, 2<<20)
	delta, err := metadata.GetMetadataDelta(t.Context(), &csi.GetMetadataDeltaRequest{BaseSnapshotId: base, TargetSnapshotId: target})
	wantOffsets(t, delta, err, 2<<20)
}

// size is that of the volume.
const size = 4 << 20

// put writes a block into an image.
func put(t *testing.T, path string, at int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 4096)
	content[0] = 1
	_, err = file.WriteAt(content, at)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

type metadataMessage interface {
	GetVolumeCapacityBytes() int64
	GetBlockMetadata() []*csi.BlockMetadata
}

// wantOffsets reads a stream to its end.
func wantOffsets[M metadataMessage](t *testing.T, stream interface{ Recv() (M, error) }, err error, want ...int64) {
	t.Helper()
	var got []int64
	for err == nil {
		var m M
		if m, err = stream.Recv(); err != nil {
			break
		}
		if m.GetVolumeCapacityBytes() != size {
			t.Errorf("a capacity of %d", m.GetVolumeCapacityBytes())
		}
		for _, e := range m.GetBlockMetadata() {
			got = append(got, e.GetByteOffset())
		}
	}
	if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
		t.Errorf("blocks at %v, %v, want %v", got, err, want)
	}
}
