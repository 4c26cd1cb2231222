package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/mount"
)

// loopImages is a rig over real loop devices and mounts.
func loopImages(t *testing.T) (r *rig, staging string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "driver")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := mount.CleanBelow(dir); err != nil {
			t.Errorf("leave no mount behind: %v", err)
			return // removing a folder with mounts would empty them
		}
		if left := loopsBelow(t, dir); len(left) > 0 {
			t.Errorf("left attached: %q", left)
		}
		if _, err := loopfile.DetachBelow(context.Background(), dir); err != nil {
			t.Errorf("leave no loop device behind: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	state := filepath.Join(dir, "state")
	if err := loopfile.Usable(state); err != nil {
		t.Skip("no loop images here: " + err.Error())
	}
	b, err := loopfile.New(loopfile.Config{StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	r = newRig(t, settings{state: state, backend: b, mounter: mount.BindMounter{}})
	r.targets = filepath.Join(dir, "targets")
	if err := os.Mkdir(r.targets, 0o700); err != nil {
		t.Fatal(err)
	}
	return r, filepath.Join(dir, "staging-")
}

// loopsBelow lists the loop devices whose files are below a folder.
func loopsBelow(t *testing.T, dir string) (files []string) {
	t.Helper()
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range devices {
		// A device of others can be detached between the two steps.
		if file, err := os.ReadFile(device); err == nil && strings.HasPrefix(string(file), dir+"/") {
			files = append(files, strings.TrimSpace(string(file)))
		}
	}
	return files
}

// Few enough that calls collide, and enough that most do not.
const randomVolumes, randomSnapshots = 24, 8

// randomCalls makes random calls for a few volumes and snapshots.
type randomCalls struct {
	*rig
	staging string
	mu      sync.Mutex
	seen    map[codes.Code]int
}

// allowedCodes are the codes that the CSI spec allows for calls that collide.
var allowedCodes = map[codes.Code]bool{
	codes.OK: true, codes.Aborted: true, codes.NotFound: true, codes.FailedPrecondition: true,
	codes.AlreadyExists: true, codes.OutOfRange: true,
}

func (s *randomCalls) call(ctx context.Context, random *rand.Rand) (err error) {
	volume, snapshot := fmt.Sprintf("vol-%d", random.IntN(randomVolumes)), fmt.Sprintf("snap-%d", random.IntN(randomSnapshots))
	path, target := s.staging+volume, s.target(fmt.Sprintf("%s-%d", volume, random.IntN(2)))
	c := mountCapability(writer)
	switch random.IntN(12) {
	case 0, 1:
		_, err = s.CreateVolume(ctx, sized(volume, 16<<20, nil))
	case 2:
		_, err = s.CreateVolume(ctx, sized(volume, 24<<20, snapshotSource(snapshot)))
	case 3:
		_, err = s.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	case 4, 5:
		_, err = s.NodeStageVolume(ctx, stageRequest(volume, path, c))
	case 6:
		_, err = s.NodePublishVolume(ctx, &csi.NodePublishVolumeRequest{VolumeId: volume, StagingTargetPath: path, TargetPath: target, VolumeCapability: c})
	case 7:
		_, err = s.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
	case 8:
		_, err = s.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: path})
	case 9:
		_, err = s.CreateSnapshot(ctx, &csi.CreateSnapshotRequest{Name: snapshot, SourceVolumeId: volume})
	case 10:
		_, err = s.DeleteSnapshot(ctx, &csi.DeleteSnapshotRequest{SnapshotId: snapshot})
	default:
		_, err = s.ControllerExpandVolume(ctx, &csi.ControllerExpandVolumeRequest{VolumeId: volume, CapacityRange: &csi.CapacityRange{RequiredBytes: 20 << 20}})
	}
	return err
}

func sized(name string, bytes int64, source *csi.VolumeContentSource) *csi.CreateVolumeRequest {
	request := createRequest(name)
	request.CapacityRange.RequiredBytes, request.VolumeContentSource = bytes, source
	return request
}

// 200 calls at once, on real images, devices and mounts: the spec allows each answer, and
// afterwards everything can be deleted.
func TestRandomCallsOnLoopImages(t *testing.T) {
	r, staging := loopImages(t)
	s := &randomCalls{rig: r, staging: staging, seen: map[codes.Code]int{}}
	var callers sync.WaitGroup
	for seed := range uint64(200) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for range 10 {
				err := s.call(t.Context(), random)
				code := status.Code(err)
				if !allowedCodes[code] {
					t.Errorf("%v", err)
				}
				s.mu.Lock()
				s.seen[code]++
				s.mu.Unlock()
			}
		})
	}
	callers.Wait()
	t.Logf("answers: %v", s.seen)
	if s.seen[codes.OK] < 100 {
		t.Errorf("hardly anything was done: %v", s.seen)
	}
	s.clear(t)
}

// unstageAgain repeats the call as a kubelet does while a process of the machine, such as udev or
// another test that looks for a free loop device, has the device open.
func (s *randomCalls) unstageAgain(t *testing.T, volume string) {
	t.Helper()
	request := &csi.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: s.staging + volume}
	var err error
	for range 20 { // of half a second each
		if _, err = s.NodeUnstageVolume(t.Context(), request); status.Code(err) != codes.FailedPrecondition {
			break
		}
	}
	wantCode(t, err, codes.OK)
}

func (s *randomCalls) clear(t *testing.T) {
	t.Helper()
	for v := range randomVolumes {
		volume := fmt.Sprintf("vol-%d", v)
		for i := range 2 {
			s.unpublish(t, volume, fmt.Sprintf("%s-%d", volume, i))
		}
		s.unstageAgain(t, volume)
		s.delete(t, volume)
	}
	for i := range randomSnapshots {
		_, err := s.DeleteSnapshot(t.Context(), &csi.DeleteSnapshotRequest{SnapshotId: fmt.Sprintf("snap-%d", i)})
		wantCode(t, err, codes.OK)
	}
	wantEmptyDir(t, s.targets)
	for _, folder := range []string{"volumes", "snapshots", "staged", "temp", "trash", "published", "stagings"} {
		wantEmptyDir(t, filepath.Join(s.state, folder))
	}
}
