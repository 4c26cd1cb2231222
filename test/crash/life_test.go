//go:build linux && amd64

package crash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/csirpc"
)

// life is what happens to volumes, from the first call to the last.
type life struct {
	dir      string
	conn     *csirpc.Conn
	access   *csi.VolumeCapability
	bytes    int64
	features features
}

// features are those that a life uses.
type features struct {
	stages, snapshots bool
	// inUse says that a volume is copied and grows while a pod has it.
	inUse bool
}

// step is one call, or one thing that a pod does. Steps can be repeated.
type step struct {
	name string
	do   func(ctx context.Context) error
}

const content = "day one, and nothing may be lost of it\n"

// steps are one life: a volume that is copied and grows while a pod has it
// where that is possible, and otherwise when the pod has gone.
func (l *life) steps() []step {
	var steps []step
	add := func(name string, do func(context.Context) error) { steps = append(steps, step{name, do}) }
	change := func() {
		add("snapshot", l.snapshot)
		add("expand", l.expand)
	}
	add("create", func(ctx context.Context) error { return l.create(ctx, "vol", l.bytes, nil) })
	l.take(&steps, "vol")
	add("write vol", func(context.Context) error { return l.write("vol") })
	if l.features.inUse {
		change()
		add("expand on the node", l.expandNode)
	}
	l.leave(&steps, "vol")
	if l.features.snapshots {
		if !l.features.inUse {
			change()
		}
		add("restore", func(ctx context.Context) error { return l.create(ctx, "copy", l.bytes*3/2, ofSnapshot("snap")) })
		add("clone", func(ctx context.Context) error { return l.create(ctx, "clone", 0, ofVolume("vol")) })
		for _, id := range []string{"copy", "clone"} {
			l.take(&steps, id)
		}
		for _, id := range []string{"copy", "clone"} {
			add("read "+id, func(context.Context) error { return l.read(id) })
			l.leave(&steps, id)
		}
	}
	l.take(&steps, "vol")
	add("read vol", func(context.Context) error { return l.read("vol") })
	l.leave(&steps, "vol")
	return append(steps, l.end()...)
}

func ofSnapshot(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: id},
	}}
}

func ofVolume(id string) *csi.VolumeContentSource {
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: id},
	}}
}

// take is what happens before a pod has a volume, and leave what happens when
// it has gone.
func (l *life) take(steps *[]step, id string) {
	*steps = append(*steps,
		step{"stage " + id, func(ctx context.Context) error { return l.stage(ctx, id) }},
		step{"publish " + id, func(ctx context.Context) error { return l.publish(ctx, id) }},
	)
}

func (l *life) leave(steps *[]step, id string) {
	*steps = append(*steps,
		step{"unpublish " + id, func(ctx context.Context) error { return l.unpublish(ctx, id) }},
		step{"unstage " + id, func(ctx context.Context) error { return l.unstage(ctx, id) }},
	)
}

// giveUp is what a caller does that wants the volume no more. When the volume
// has been written and its removal has not begun, the content is read first.
func (l *life) giveUp(did int) []step {
	all, end := l.steps(), l.end()
	written := 1 + slices.IndexFunc(all, func(s step) bool { return s.name == "write vol" })
	if did < written || did >= len(all)-len(end) {
		return end
	}
	var steps []step
	l.take(&steps, "vol")
	steps = append(steps, step{"read vol", func(context.Context) error { return l.read("vol") }})
	return append(steps, end...)
}

// end takes everything away, also what was never there.
func (l *life) end() []step {
	steps := []step{}
	for _, id := range []string{"vol", "copy", "clone"} {
		steps = append(steps,
			step{"end: unpublish " + id, func(ctx context.Context) error { return l.unpublish(ctx, id) }},
			step{"end: unstage " + id, func(ctx context.Context) error { return l.unstage(ctx, id) }},
			step{"delete " + id, func(ctx context.Context) error {
				_, err := l.conn.Controller().DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: id})
				return err
			}})
	}
	if l.features.snapshots {
		steps = append(steps, step{"delete snapshot", func(ctx context.Context) error {
			_, err := l.conn.Controller().DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: "snap"})
			return err
		}})
	}
	return steps
}

func (l *life) create(ctx context.Context, name string, bytes int64, source *csi.VolumeContentSource) error {
	request := &csi.CreateVolumeRequest{Name: name, VolumeCapabilities: []*csi.VolumeCapability{l.access}, VolumeContentSource: source}
	if bytes > 0 {
		request.CapacityRange = &csi.CapacityRange{RequiredBytes: bytes}
	}
	response, err := l.conn.Controller().CreateVolume(ctx, request)
	if err == nil && response.GetVolume().GetVolumeId() != name {
		err = fmt.Errorf("the volume is called %q", response.GetVolume().GetVolumeId())
	}
	return err
}

func (l *life) snapshot(ctx context.Context) error {
	response, err := l.conn.Controller().CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: "snap", SourceVolumeId: "vol"})
	if err == nil && !response.GetSnapshot().GetReadyToUse() {
		err = errors.New("the snapshot is not ready")
	}
	return err
}

func (l *life) expand(ctx context.Context) error {
	response, err := l.conn.Controller().ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{
		VolumeId: "vol", CapacityRange: &csi.CapacityRange{RequiredBytes: 2 * l.bytes},
	})
	if err == nil && response.GetCapacityBytes() < 2*l.bytes {
		err = fmt.Errorf("the volume has %d bytes", response.GetCapacityBytes())
	}
	return err
}

// expandNode accepts that the kernel lets no process here grow a mounted ext4: it
// grows when it is staged again.
func (l *life) expandNode(ctx context.Context) error {
	_, err := l.conn.Node().NodeExpandVolume(ctx, &csi.NodeExpandVolumeRequest{
		VolumeId: "vol", VolumePath: l.target("vol"), StagingTargetPath: l.staging("vol"), VolumeCapability: l.access,
	})
	if status.Code(err) == codes.FailedPrecondition && strings.Contains(err.Error(), "CAP_SYS_RESOURCE") {
		return nil
	}
	return err
}

func (l *life) staging(id string) string { return filepath.Join(l.dir, "staging-"+id) }
func (l *life) target(id string) string  { return filepath.Join(l.dir, "target-"+id) }

func (l *life) stage(ctx context.Context, id string) error {
	if !l.features.stages {
		return nil
	}
	if err := os.Mkdir(l.staging(id), 0o750); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_, err := l.conn.Node().NodeStageVolume(ctx, &csi.NodeStageVolumeRequest{VolumeId: id, StagingTargetPath: l.staging(id), VolumeCapability: l.access})
	return err
}

func (l *life) publish(ctx context.Context, id string) error {
	_, err := l.conn.Node().NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{
		VolumeId: id, StagingTargetPath: l.staging(id), TargetPath: l.target(id), VolumeCapability: l.access,
	})
	return err
}

func (l *life) unpublish(ctx context.Context, id string) error {
	_, err := l.conn.Node().NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: id, TargetPath: l.target(id)})
	return err
}

func (l *life) unstage(ctx context.Context, id string) error {
	if !l.features.stages {
		return nil
	}
	_, err := l.conn.Node().NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: id, StagingTargetPath: l.staging(id)})
	return err
}

// file is where a pod writes: in the filesystem, or the device itself.
func (l *life) file(id string) string {
	if l.access.GetBlock() != nil {
		return l.target(id)
	}
	return filepath.Join(l.target(id), "file")
}

// write does not sync: unstaging a volume, and a driver that is killed and
// started again, must keep what a pod has written and closed.
func (l *life) write(id string) error {
	flags := os.O_WRONLY
	if l.access.GetBlock() == nil {
		flags |= os.O_CREATE | os.O_TRUNC
	}
	file, err := os.OpenFile(l.file(id), flags, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(file, content)
	return errors.Join(err, file.Close())
}

func (l *life) read(id string) error {
	file, err := os.Open(l.file(id))
	if err != nil {
		return err
	}
	defer file.Close()
	got := make([]byte, len(content))
	if _, err := io.ReadFull(file, got); err != nil {
		return fmt.Errorf("volume %s: %w", id, err)
	}
	if string(got) != content {
		return fmt.Errorf("volume %s: data lost: read %q, want %q", id, got, content)
	}
	return nil
}
