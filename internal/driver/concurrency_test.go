package driver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/directory"
	"github.com/purser-csi/purser/internal/mount"
)

// gated holds every Create until the test lets it go.
type gated struct {
	*directory.Backend
	entered chan struct{}
	open    chan struct{}
}

func newGated(t *testing.T, state string) *gated {
	return &gated{Backend: directories(t, state), entered: make(chan struct{}, 100), open: make(chan struct{})}
}

func (g *gated) Create(ctx context.Context, r backend.Request) (backend.Volume, error) {
	g.entered <- struct{}{}
	<-g.open
	return g.Backend.Create(ctx, r)
}

func TestOneOperationPerVolume(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	backend := newGated(t, state)
	now := time.Unix(0, 0)
	r := newRig(t, settings{state: state, backend: backend, now: func() time.Time { return now }})

	first := make(chan error, 1)
	go func() {
		_, err := r.CreateVolume(t.Context(), createRequest("vol"))
		first <- err
	}()
	<-backend.entered
	now = now.Add(1500 * time.Millisecond)

	const text = `CreateVolume for "vol" has been running for 1.5s`
	var others sync.WaitGroup
	for range 20 {
		others.Go(func() {
			_, err := r.CreateVolume(t.Context(), createRequest("vol"))
			wantCode(t, err, codes.Aborted, text)
		})
		others.Go(func() {
			_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "vol"})
			wantCode(t, err, codes.Aborted, text)
		})
		others.Go(func() {
			_, err := r.NodePublishVolume(t.Context(), r.publishRequest("vol", "target"))
			wantCode(t, err, codes.Aborted, text)
		})
		others.Go(func() {
			request := &csi.NodeUnpublishVolumeRequest{VolumeId: "vol", TargetPath: r.target("target")}
			_, err := r.NodeUnpublishVolume(t.Context(), request)
			wantCode(t, err, codes.Aborted, text)
		})
	}
	others.Wait()
	if len(backend.entered) > 0 {
		t.Error("a second call reached the backend")
	}
	close(backend.open)
	wantCode(t, <-first, codes.OK)
	r.create(t, "vol")
}

// gatedMounter holds every Bind until the test lets it go.
type gatedMounter struct {
	mount.SymlinkMounter
	entered chan struct{}
	open    chan struct{}
}

func (g gatedMounter) Bind(source, target string, access mount.Access) error {
	g.entered <- struct{}{}
	<-g.open
	return g.SymlinkMounter.Bind(source, target, access)
}

// Two volumes with the same target path exclude each other as well.
func TestOneOperationPerTarget(t *testing.T) {
	mounter := gatedMounter{entered: make(chan struct{}, 1), open: make(chan struct{})}
	r := newRig(t, settings{mounter: mounter})
	one, two := r.create(t, "one"), r.create(t, "two")
	first := make(chan error, 1)
	go func() {
		_, err := r.NodePublishVolume(t.Context(), r.publishRequest(one, "target"))
		first <- err
	}()
	<-mounter.entered
	_, err := r.NodePublishVolume(t.Context(), r.publishRequest(two, "target"))
	wantCode(t, err, codes.Aborted, "NodePublishVolume for", r.target("target"))
	_, err = r.NodeUnpublishVolume(t.Context(), &csi.NodeUnpublishVolumeRequest{VolumeId: two, TargetPath: r.target("target")})
	wantCode(t, err, codes.Aborted)
	close(mounter.open)
	wantCode(t, <-first, codes.OK)
}

func TestOtherVolumesAreNotHeldUp(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	backend := newGated(t, state)
	r := newRig(t, settings{state: state, backend: backend})
	const volumes = 10
	results := make(chan error, volumes)
	for i := range volumes {
		go func() {
			_, err := r.CreateVolume(t.Context(), createRequest(fmt.Sprintf("vol-%d", i)))
			results <- err
		}()
	}
	for range volumes { // all of them are inside at once
		<-backend.entered
	}
	close(backend.open)
	for range volumes {
		wantCode(t, <-results, codes.OK)
	}
}

// Many callers do everything at once to a few volumes. Each answer must be one
// that the spec allows, and in the end the driver must be able to clean up.
func TestRandomConcurrentCalls(t *testing.T) {
	r := newRig(t, settings{})
	volumes := []string{"a", "b", "c"}
	targets := []string{"t1", "t2"}
	allowed := map[codes.Code]bool{
		codes.OK: true, codes.Aborted: true, codes.NotFound: true, codes.FailedPrecondition: true,
	}
	var callers sync.WaitGroup
	for seed := range uint64(8) {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 0))
			for range 150 {
				err := r.anything(t.Context(), random, volumes, targets)
				if !allowed[status.Code(err)] {
					t.Errorf("not an answer for this: %v", err)
				}
			}
		})
	}
	callers.Wait()
	for _, volume := range volumes {
		for _, target := range targets {
			// FAILED_PRECONDITION: another volume is there.
			request := &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: r.target(target)}
			if _, err := r.NodeUnpublishVolume(t.Context(), request); status.Code(err) != codes.FailedPrecondition {
				wantCode(t, err, codes.OK)
			}
		}
	}
	for _, volume := range volumes {
		r.delete(t, volume)
	}
	wantEmptyDir(t, r.targets)
	for _, dir := range []string{"volumes", "temp", "trash", "published"} {
		wantEmptyDir(t, filepath.Join(r.state, dir))
	}
}

func (r *rig) anything(ctx context.Context, random *rand.Rand, volumes, targets []string) (err error) {
	volume, target := volumes[random.IntN(len(volumes))], targets[random.IntN(len(targets))]
	switch random.IntN(5) {
	case 0:
		_, err = r.CreateVolume(ctx, createRequest(volume))
	case 1:
		_, err = r.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: volume})
	case 2:
		_, err = r.NodePublishVolume(ctx, r.publishRequest(volume, target))
	case 3:
		_, err = r.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: r.target(target)})
	case 4:
		_, err = r.ListVolumes(ctx, &csi.ListVolumesRequest{})
	}
	return err
}

// stuck never comes back from a Create, whatever its context says.
type stuck struct {
	*directory.Backend
	entered chan struct{}
	free    chan struct{}
}

func (s stuck) Create(context.Context, backend.Request) (backend.Volume, error) {
	close(s.entered)
	<-s.free
	return backend.Volume{}, errors.New("freed")
}
