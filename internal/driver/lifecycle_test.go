package driver

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"pgregory.net/rapid"
)

func TestCreateIsIdempotentByName(t *testing.T) {
	r := newRig(t, settings{})
	for _, name := range []string{"vol", "ein Gefäß", "../../vol"} {
		first, err := r.CreateVolume(t.Context(), createRequest(name))
		wantCode(t, err, codes.OK)
		repeated := createRequest(name)
		repeated.Parameters = map[string]string{"csi.storage.k8s.io/pvc/name": "claim"}
		repeated.VolumeCapabilities = append(repeated.VolumeCapabilities, repeated.VolumeCapabilities[0])
		repeated.CapacityRange = &csi.CapacityRange{RequiredBytes: 1 << 20, LimitBytes: 1 << 30}
		second, err := r.CreateVolume(t.Context(), repeated)
		wantCode(t, err, codes.OK)
		if first.String() != second.String() {
			t.Errorf("%q: first %v, then %v", name, first, second)
		}
	}
}

func TestTheLifeOfAVolume(t *testing.T) {
	r := newRig(t, settings{})
	id := r.create(t, "vol")
	for range 2 {
		r.publish(t, id, "target")
	}
	file := filepath.Join(r.target("target"), "file")
	if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.unpublish(t, id, "target")
	}
	wantEmptyDir(t, r.targets)
	wantEmptyDir(t, filepath.Join(r.state, "published"))
	r.publish(t, id, "another")
	if content, err := os.ReadFile(filepath.Join(r.target("another"), "file")); string(content) != "content" {
		t.Errorf("read %q, %v", content, err)
	}
	r.unpublish(t, id, "another")
	r.delete(t, id)
	for _, dir := range []string{"volumes", "temp", "trash", "published"} {
		wantEmptyDir(t, filepath.Join(r.state, dir))
	}
}

func TestDeleteRefusesAPublishedVolumeAndTouchesNothing(t *testing.T) {
	r := newRig(t, settings{})
	id := r.create(t, "vol")
	r.publish(t, id, "target")
	file := filepath.Join(r.target("target"), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition, r.target("target"))
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the content is gone: %v", err)
	}
	r.unpublish(t, id, "target")
	r.delete(t, id)
}

// A target that was removed without the driver (the folder of a pod was deleted by hand) must not
// keep the volume in use for ever.
func TestAVanishedTargetIsNoPublication(t *testing.T) {
	r := newRig(t, settings{})
	id := r.create(t, "vol")
	r.publish(t, id, "target")
	if err := os.Remove(r.target("target")); err != nil {
		t.Fatal(err)
	}
	r.publish(t, id, "another")
	if err := os.Remove(r.target("another")); err != nil {
		t.Fatal(err)
	}
	r.delete(t, id)
}

// The driver is stopped or killed, and started again. An orderly stop does nothing more than a
// kill, except that it removes the socket.
func TestRestart(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r := newRig(t, settings{state: state})
	id := r.create(t, "vol")
	r.publish(t, id, "target")
	targets := r.targets
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}

	r = newRig(t, settings{state: state})
	r.targets = targets
	if again := r.create(t, "vol"); again != id {
		t.Errorf("the volume is now %s, was %s", again, id)
	}
	_, err := r.CreateVolume(t.Context(), &csi.CreateVolumeRequest{
		Name: "vol", VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer)},
		CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 30},
	})
	wantCode(t, err, codes.AlreadyExists)
	other := r.publishRequest(id, "target")
	other.Readonly = true
	_, err = r.NodePublishVolume(t.Context(), other)
	wantCode(t, err, codes.AlreadyExists, "readonly=false", "readonly=true")
	r.publish(t, id, "target")
	_, err = r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
	wantCode(t, err, codes.FailedPrecondition)
	r.unpublish(t, id, "target")
	r.delete(t, id)
}

// The driver is killed while a volume is created, while one is deleted, between a record and its
// mount, and after the machine lost its mounts.
func TestRestartAfterACrash(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r := newRig(t, settings{state: state})
	id, targets := r.create(t, "vol"), r.targets
	r.publish(t, id, "target")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for _, leftover := range []string{"temp/create-1/data", "trash/vol-1/vol/data"} {
		if err := os.MkdirAll(filepath.Join(state, leftover), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(targets, "target")); err != nil {
		t.Fatal(err)
	}

	r = newRig(t, settings{state: state})
	r.targets = targets
	r.publish(t, id, "another") // SINGLE_NODE_WRITER: the lost one does not count
	r.unpublish(t, id, "another")
	r.unpublish(t, id, "target")
	r.delete(t, id)
	for _, dir := range []string{"volumes", "temp", "trash", "published"} {
		wantEmptyDir(t, filepath.Join(state, dir))
	}
}

// The records are lost, the mount is there: unpublishing must still work.
func TestUnpublishWithoutARecord(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	r := newRig(t, settings{state: state})
	id, targets := r.create(t, "vol"), r.targets
	r.publish(t, id, "target")
	if err := errors.Join(r.stop(), os.RemoveAll(filepath.Join(state, "published"))); err != nil {
		t.Fatal(err)
	}
	r = newRig(t, settings{state: state})
	r.targets = targets
	r.unpublish(t, id, "target")
	wantEmptyDir(t, targets)
}

func TestAFailedPublishLeavesNoRecord(t *testing.T) {
	r := newRig(t, settings{})
	id := r.create(t, "vol")
	if err := os.WriteFile(r.target("target"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := r.NodePublishVolume(t.Context(), r.publishRequest(id, "target"))
	wantCode(t, err, codes.FailedPrecondition, "is a file")
	wantEmptyDir(t, filepath.Join(r.state, "published"))
	r.delete(t, id)
}

func TestOneTargetShowsOneVolume(t *testing.T) {
	r := newRig(t, settings{})
	first, second := r.create(t, "first"), r.create(t, "second")
	r.publish(t, first, "target")
	_, err := r.NodePublishVolume(t.Context(), r.publishRequest(second, "target"))
	wantCode(t, err, codes.FailedPrecondition, `"first" is published there`)
	r.unpublish(t, first, "target")
	r.publish(t, second, "target")
}

// One volume with a broken file is an error for that volume only.
func TestADamagedVolume(t *testing.T) {
	r := newRig(t, settings{})
	damaged, sound := r.create(t, "damaged"), r.create(t, "sound")
	if err := os.Truncate(filepath.Join(r.state, "volumes", damaged, "volume.json"), 10); err != nil {
		t.Fatal(err)
	}
	_, err := r.CreateVolume(t.Context(), createRequest("damaged"))
	wantCode(t, err, codes.Internal, `"damaged" is damaged`)
	_, err = r.NodePublishVolume(t.Context(), r.publishRequest(damaged, "target"))
	wantCode(t, err, codes.Internal)
	response, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{})
	wantCode(t, err, codes.OK)
	if len(response.GetEntries()) != 2 {
		t.Errorf("listed %v, want both", response.GetEntries())
	}
	r.publish(t, sound, "target")
	r.delete(t, damaged)
}

func TestListVolumesInPages(t *testing.T) {
	r := newRig(t, settings{})
	names := []string{"a", "b", "c", "d", "e"}
	for _, name := range names {
		r.create(t, name)
	}
	for size := int32(0); size <= 6; size++ {
		var got []string
		request := &csi.ListVolumesRequest{MaxEntries: size}
		for {
			response, err := r.ListVolumes(t.Context(), request)
			wantCode(t, err, codes.OK)
			if size > 0 && len(response.GetEntries()) > int(size) {
				t.Errorf("page of %d entries, asked for %d", len(response.GetEntries()), size)
			}
			for _, entry := range response.GetEntries() {
				got = append(got, entry.GetVolume().GetVolumeId())
			}
			if request.StartingToken = response.GetNextToken(); request.StartingToken == "" {
				break
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("in pages of %d: %q", size, got)
		}
	}
}

// The volume in a page token may have been deleted before the next call with the token.
func TestListVolumesWhileVolumesGo(t *testing.T) {
	r := newRig(t, settings{})
	for _, name := range []string{"a", "b", "c"} {
		r.create(t, name)
	}
	response, err := r.ListVolumes(t.Context(), &csi.ListVolumesRequest{MaxEntries: 1})
	wantCode(t, err, codes.OK)
	r.delete(t, "a")
	response, err = r.ListVolumes(t.Context(), &csi.ListVolumesRequest{StartingToken: response.GetNextToken()})
	wantCode(t, err, codes.OK)
	if len(response.GetEntries()) != 2 || response.GetEntries()[0].GetVolume().GetVolumeId() != "b" {
		t.Errorf("after a: %v", response.GetEntries())
	}
}

// Whatever id arrives, nothing outside the state directory is touched.
func TestNoIDLeadsOutside(t *testing.T) {
	world := t.TempDir()
	state := filepath.Join(world, "deep", "state")
	r := newRig(t, settings{state: state})
	r.create(t, "vol")
	canary := filepath.Join(world, "canary", "data")
	if err := os.MkdirAll(canary, 0o755); err != nil {
		t.Fatal(err)
	}
	id := rapid.OneOf(
		rapid.SampledFrom([]string{
			"..", ".", "../..", "../../canary", "../../../canary", "vol/../../../../canary", "vol/data",
			"/", canary, "./vol", "vol/", "\x00", "vol\x00",
		}),
		rapid.StringMatching(`(\.\./){1,6}(canary|deep|state|vol)?(/data)?`),
	)
	rapid.Check(t, func(rt *rapid.T) {
		id := id.Draw(rt, "id")
		_, err := r.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: id})
		wantCode(t, err, codes.OK)
		_, err = r.NodePublishVolume(t.Context(), r.publishRequest(id, "target"))
		wantCode(t, err, codes.NotFound)
		_, err = r.ValidateVolumeCapabilities(t.Context(), &csi.ValidateVolumeCapabilitiesRequest{
			VolumeId: id, VolumeCapabilities: []*csi.VolumeCapability{mountCapability(writer)},
		})
		wantCode(t, err, codes.NotFound)
		for _, path := range []string{canary, filepath.Join(state, "volumes", "vol", "data")} {
			if _, err := os.Stat(path); err != nil {
				rt.Fatalf("%q destroyed %s", id, path)
			}
		}
	})
	wantEmptyDir(t, r.targets)
}
