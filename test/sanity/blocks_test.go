package sanity

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/purser-csi/purser/internal/driver/filesystem"
	"github.com/purser-csi/purser/test/backupclient"
)

// A backup of the allocated blocks of a snapshot, and then of the blocks that changed until each
// later one, has the checksum of the snapshot: on the filesystem of the machine, and on one that
// shares blocks (reflink). The streams are ended early and resumed (CB-13, CB-16).
func TestBackupsHaveTheChecksumOfTheSnapshot(t *testing.T) {
	for _, tc := range []struct {
		name string
		pool func(t *testing.T, state string)
	}{{"of the machine", func(*testing.T, string) {}}, {"reflink", mountReflink}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := shortDir(t)
			s := loopImages(t, filesystem.Default, 4, 8)
			tc.pool(t, filepath.Join(dir, "state"))
			startDriver(t, dir, s)
			newBackup(t, dir).run()
		})
	}
}

// mountReflink mounts a filesystem that can share blocks.
func mountReflink(t *testing.T, at string) {
	t.Helper()
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip(err)
	}
	image := filepath.Join(t.TempDir(), "xfs")
	file, err := os.Create(image)
	if err == nil {
		err = errors.Join(file.Truncate(1<<30), file.Close(), os.MkdirAll(at, 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("%v: %v: %s", args, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", at).CombinedOutput(); err != nil {
			t.Errorf("umount %s: %v: %s", at, err, out)
		}
	})
}

// backup is a volume that changes, and a backup of it.
type backup struct {
	*testing.T

	dir, volume string
	controller  csi.ControllerClient
	metadata    csi.SnapshotMetadataClient
	random      *rand.Rand
}

const backedUp = 48 << 20 // bytes of the volume

func newBackup(t *testing.T, dir string) *backup {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+socketIn(dir), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	b := &backup{
		T: t, dir: dir, controller: csi.NewControllerClient(connection),
		metadata: csi.NewSnapshotMetadataClient(connection),
		random:   rand.New(rand.NewPCG(3314, 4)),
	}
	made, err := b.controller.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: backedUp},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.volume = made.GetVolume().GetVolumeId()
	return b
}

func (b *backup) run() {
	b.Helper()
	restored, before := filepath.Join(b.TempDir(), "restored"), ""
	for round := range 4 {
		b.change()
		taken, err := b.controller.CreateSnapshot(
			b.Context(), &csi.CreateSnapshotRequest{Name: fmt.Sprint("s", round), SourceVolumeId: b.volume},
		)
		if err != nil {
			b.Fatal(err)
		}
		id := taken.GetSnapshot().GetSnapshotId()
		image := filepath.Join(b.dir, "state", "snapshots", id, "image")
		blocks := b.blocks(before, id)
		if err := backupclient.Restore(restored, image, blocks); err != nil {
			b.Fatal(err)
		}
		want, err := backupclient.Checksum(image)
		got, alsoErr := backupclient.Checksum(restored)
		if err := errors.Join(err, alsoErr); err != nil {
			b.Fatal(err)
		}
		total := int64(0)
		for _, one := range blocks {
			total += one.Size
		}
		if got != want || total == 0 || total >= backedUp {
			b.Errorf("round %d: %d bytes in %d blocks give %s, want %s", round, total, len(blocks), got, want)
		}
		before = id
	}
}

// change writes data, zeros and holes into the volume, which is not in use.
func (b *backup) change() {
	b.Helper()
	file, err := os.OpenFile(filepath.Join(b.dir, "state", "volumes", b.volume, "image"), os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	for i := range 30 {
		at, size := b.random.Int64N(backedUp-1<<20), b.random.Int64N(200<<10)+1
		switch {
		case i%5 == 0:
			err = errors.Join(err, unix.Fallocate(
				int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size,
			))
		case i%7 == 0:
			_, failed := file.WriteAt(make([]byte, size), at)
			err = errors.Join(err, failed)
		default:
			content := make([]byte, size)
			for j := range content {
				content[j] = byte(b.random.Uint32())
			}
			_, failed := file.WriteAt(content, at)
			err = errors.Join(err, failed)
		}
	}
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		b.Fatal(err)
	}
}

// blocks returns the blocks that changed, or for no base the allocated ones, over several streams.
func (b *backup) blocks(base, target string) (all []backupclient.Block) {
	b.Helper()
	from := int64(0)
	for {
		var next func() ([]*csi.BlockMetadata, error)
		if base == "" {
			stream, err := b.metadata.GetMetadataAllocated(
				b.Context(), &csi.GetMetadataAllocatedRequest{SnapshotId: target, StartingOffset: from, MaxResults: 2},
			)
			if err != nil {
				b.Fatal(err)
			}
			next = func() ([]*csi.BlockMetadata, error) { m, err := stream.Recv(); return m.GetBlockMetadata(), err }
		} else {
			stream, err := b.metadata.GetMetadataDelta(b.Context(), &csi.GetMetadataDeltaRequest{
				BaseSnapshotId: base, TargetSnapshotId: target, StartingOffset: from, MaxResults: 2,
			})
			if err != nil {
				b.Fatal(err)
			}
			next = func() ([]*csi.BlockMetadata, error) { m, err := stream.Recv(); return m.GetBlockMetadata(), err }
		}
		for range 4 { // and then the connection is lost
			got, err := next()
			if errors.Is(err, io.EOF) {
				return all
			}
			if err != nil {
				b.Fatal(err)
			}
			for _, one := range got {
				all = append(all, backupclient.Block{Offset: one.GetByteOffset(), Size: one.GetSizeBytes()})
				from = one.GetByteOffset() + one.GetSizeBytes()
			}
		}
	}
}
