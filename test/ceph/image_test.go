package ceph

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestAnImageIsWhatWasAskedFor(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"pvc-4f1a7c9e", "ein Gefäß/../\"", strings.Repeat("x", 128)} {
		made := r.create(r.request(name, images))
		r.restart()
		got, err := r.Get(r.ctx(), made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(made, got, cmp.AllowUnexported(backend.ID{})); diff != "" {
			t.Error(diff)
		}
		if ids, err := r.List(r.t.Context()); err != nil || len(ids) != 1 || ids[0] != made.ID {
			t.Errorf("List = %v, %v", ids, err)
		}
		r.delete(made.ID)
		r.delete(made.ID) // the second call is the idempotent one
		if _, err := r.Get(r.ctx(), made.ID); !fault.NotFound.Is(err) {
			t.Errorf("Get after Delete: %v, want not found", err)
		}
	}
	wantEmptyPool(t)
}

func TestAnImageKeepsItsDataThroughEverything(t *testing.T) {
	needCeph(t) // what is asked of the pool at the end, too
	for _, fs := range []string{"", "xfs", "btrfs"} {
		t.Run("fs="+fs, func(t *testing.T) {
			r := newRig(t)
			large := func(q *backend.Request) {
				q.Size.Required = 320 * mebi
				q.Capabilities[0].FSType = fs
			}
			c := mounted
			c.FSType = fs
			volume := r.create(r.request("origin", images, large))
			path := r.stage(volume.ID, c)
			write(t, filepath.Join(path, "first"), "1")
			r.unstage(volume.ID)
			snapshot := r.snapshot("s", volume.ID)
			path = r.stage(volume.ID, c)
			write(t, filepath.Join(path, "second"), "2")
			if snapshot.SizeBytes != 320*mebi || !snapshot.Ready || snapshot.Created.IsZero() {
				t.Errorf("snapshot: %+v", snapshot)
			}

			restored := r.create(r.request("restored", images, large, from(snapshot.ID), func(q *backend.Request) { q.Size.Required = 640 * mebi }))
			at := r.stage(restored.ID, c)
			wantContent(t, filepath.Join(at, "first"), "1")
			if _, err := os.Stat(filepath.Join(at, "second")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the restored volume has what was written later: %v", err)
			}
			wantBytes(t, r, restored.ID, at, 500*mebi)

			flush(t, path)
			clone := r.create(r.request("clone", images, large, cloneOf(volume.ID)))
			at = r.stage(clone.ID, c)
			wantContent(t, filepath.Join(at, "first"), "1")
			wantContent(t, filepath.Join(at, "second"), "2")

			r.restart()
			if _, err := r.Staged(t.Context(), volume.ID, path, backend.Mount); err != nil {
				t.Errorf("after a restart: %v", err)
			}
			wantContent(t, filepath.Join(path, "second"), "2")
			expand(t, r, volume.ID, path, c)
			wantContent(t, filepath.Join(r.stagingPath(volume.ID), "second"), "2")
		})
	}
	wantEmptyPool(t)
}

// wantBytes wants a filesystem of at least so many bytes.
func wantBytes(t *testing.T, r *rig, id backend.ID, path string, least int64) {
	t.Helper()
	usage, err := r.Usage(t.Context(), id, path)
	if err != nil || usage[0].Total < least {
		t.Errorf("usage of %s: %+v, %v, want at least %d bytes", id, usage, err, least)
	}
}

// expand grows a staged volume to 640 MiB, by staging it again where the
// kernel does not let a mounted one grow.
func expand(t *testing.T, r *rig, id backend.ID, path string, c backend.Capability) {
	t.Helper()
	size := backend.Range{Required: 640 * mebi}
	for range 2 {
		e, err := r.Expand(r.ctx(), id, size)
		if err != nil || e.CapacityBytes != size.Required || !e.NodeMustExpand {
			t.Fatalf("expand: %+v, %v", e, err)
		}
	}
	bytes, err := r.NodeExpand(t.Context(), backend.NodeExpansion{Volume: id, Path: path, Access: c.Type, Size: size})
	if fault.InUse.Is(err) {
		t.Logf("online: %v", err)
		r.unstage(id)
		r.stage(id, c)
	} else if err != nil || bytes != size.Required {
		t.Fatalf("expand on the node: %d, %v", bytes, err)
	}
	wantBytes(t, r, id, path, 500*mebi)
}

func TestSnapshotsOutliveTheirVolume(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("mortal", images))
	path := r.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "file"), "kept")
	r.unstage(volume.ID)
	snapshot := r.snapshot("s", volume.ID)
	r.delete(volume.ID)
	if _, err := r.Get(r.ctx(), volume.ID); !fault.NotFound.Is(err) {
		t.Errorf("Get after Delete: %v, want not found", err)
	}
	if ids, err := r.List(r.ctx()); err != nil || len(ids) > 0 {
		t.Errorf("List after Delete: %v, %v", ids, err)
	}
	// A volume of the same name is another volume.
	again := r.create(r.request("mortal", images))
	if got, err := r.GetSnapshot(r.ctx(), snapshot.ID); err != nil || got.Source != volume.ID || got.Name != "s" {
		t.Errorf("the snapshot: %+v, %v", got, err)
	}
	if ids, err := r.ListSnapshots(r.ctx()); err != nil || len(ids) != 1 || ids[0] != snapshot.ID {
		t.Errorf("ListSnapshots = %v, %v", ids, err)
	}
	restored := r.create(r.request("restored", images, from(snapshot.ID)))
	if err := r.DeleteSnapshot(r.ctx(), snapshot.ID); err != nil {
		t.Fatal(err)
	}
	r.delete(again.ID)
	wantContent(t, filepath.Join(r.stage(restored.ID, mounted), "file"), "kept")
	r.unstage(restored.ID)
	// The data of the first volume goes with the last that reads it.
	r.delete(restored.ID)
	wantEmptyPool(t)
}

func TestARawImage(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("raw", images, func(q *backend.Request) { q.Capabilities = []backend.Capability{raw} }))
	path := r.stage(volume.ID, raw)
	device, err := r.Staged(t.Context(), volume.ID, path, backend.Block)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(device, os.O_WRONLY|unix.O_SYNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("raw data"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Expand(r.ctx(), volume.ID, backend.Range{Required: 64 * mebi}); err != nil {
		t.Fatal(err)
	}
	bytes, err := r.NodeExpand(t.Context(), backend.NodeExpansion{Volume: volume.ID, Path: path, Access: backend.Block, Size: backend.Range{Required: 64 * mebi}})
	if err != nil || bytes != 64*mebi {
		t.Errorf("NodeExpand = %d, %v", bytes, err)
	}
	r.restart()
	if again, err := r.Staged(t.Context(), volume.ID, path, backend.Block); err != nil || again != device {
		t.Errorf("after a restart: %s, %v, want %s", again, err, device)
	}
	r.unstage(volume.ID)
	// What a pod wrote is not to be formatted.
	err = r.Stage(r.ctx(), backend.Staging{Volume: volume.ID, Path: path, Capability: mounted})
	if !fault.Incompatible.Is(err) {
		t.Errorf("staged as a filesystem: %v, want incompatible", err)
	}
}

// Two nodes must not write to one image: each state directory is a node.
func TestAnImageInUseElsewhereIsNotMapped(t *testing.T) {
	here, there := newRig(t), newRig(t)
	volume := here.create(here.request("single", images))
	here.stage(volume.ID, mounted)
	err := there.Stage(there.ctx(), backend.Staging{Volume: volume.ID, Path: there.stagingPath(volume.ID), Capability: mounted})
	if !fault.InUse.Is(err) || !strings.Contains(err.Error(), "ceph osd blocklist add 127.0.0.1") {
		t.Errorf("the second node: %v, want in use and how to fence", err)
	}
	if err := here.Delete(here.ctx(), volume.ID); !fault.InUse.Is(err) {
		t.Errorf("delete a volume in use: %v, want in use", err)
	}
	here.unstage(volume.ID)
	there.stage(volume.ID, mounted)
}

func TestAFullImageHarmsNoOther(t *testing.T) {
	r := newRig(t)
	full, other := r.create(r.request("full", images)), r.create(r.request("other", images))
	path, beside := r.stage(full.ID, mounted), r.stage(other.ID, mounted)
	file, err := os.Create(filepath.Join(path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, mebi)
	for range 64 {
		if _, err = file.Write(block); err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full volume: %v, want ENOSPC", err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(beside, "file"), "well")
}

func TestADeadDaemonIsNoticedAndReplaced(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("dead", images))
	path := r.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "file"), "kept")
	flush(t, path)
	killDaemon(t, "rbd-fuse", volume.ID.String())
	r.restart() // takes away what is of no use
	// The kernel remembers for a second what the daemon said.
	_, err := r.Staged(t.Context(), volume.ID, path, backend.Mount)
	for began := time.Now(); err == nil && time.Since(began) < bound; {
		_, err = r.Staged(t.Context(), volume.ID, path, backend.Mount)
	}
	if !fault.Unready.Is(err) {
		t.Errorf("Staged without its daemon: %v, want unready", err)
	}
	r.unstage(volume.ID)
	busyWatchers(t, r, volume.ID)
	wantContent(t, filepath.Join(r.stage(volume.ID, mounted), "file"), "kept")
}

func TestLimitsOfAnImage(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("limited", images, func(q *backend.Request) {
		q.Mutable = map[string]string{"rbd_qos_iops_limit": "100"}
	}))
	wantLimit := func(image, want string) {
		t.Helper()
		out, err := shared.Run(t.Context(), "rbd", "config", "image", "get", pool+"/purser."+image, "rbd_qos_iops_limit")
		if err != nil || out != want {
			t.Errorf("limit of %s: %q, %v, want %s", image, out, err, want)
		}
	}
	wantLimit("limited", "100")
	if err := r.Modify(r.ctx(), volume.ID, map[string]string{"rbd_qos_iops_limit": "200"}); err != nil {
		t.Fatal(err)
	}
	wantLimit("limited", "200")
	// A clone has the limits that were asked for, not those of its source.
	r.create(r.request("free", images, cloneOf(volume.ID)))
	if out, err := shared.Run(t.Context(), "rbd", "config", "image", "get", pool+"/purser.free", "rbd_qos_iops_limit"); err == nil && out != "0" {
		t.Errorf("limit of the clone: %s", out)
	}
}

func TestAGroupIsOfOneMoment(t *testing.T) {
	r := newRig(t)
	first, second := r.create(r.request("g1", images)), r.create(r.request("g2", images))
	write(t, filepath.Join(r.stage(first.ID, mounted), "file"), "one")
	r.unstage(first.ID)
	sources := []backend.ID{first.ID, second.ID}
	id, err := r.GroupID("group", sources)
	if err != nil {
		t.Fatal(err)
	}
	group, err := r.CreateGroup(r.ctx(), backend.GroupRequest{ID: id, Name: "group", Sources: sources})
	if err != nil || len(group.Snapshots) != 2 {
		t.Fatalf("CreateGroup = %+v, %v", group, err)
	}
	if group.Snapshots[0].Group != id.String() || group.Snapshots[1].Source != second.ID {
		t.Errorf("the members: %+v", group.Snapshots)
	}
	if ids, err := r.ListSnapshots(r.ctx()); err != nil || len(ids) != 2 {
		t.Errorf("ListSnapshots = %v, %v", ids, err)
	}
	// Another group with one of them is possible.
	other, err := r.GroupID("other", sources[:1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateGroup(r.ctx(), backend.GroupRequest{ID: other, Name: "other", Sources: sources[:1]}); err != nil {
		t.Fatal(err)
	}
	r.delete(first.ID)
	restored := r.create(r.request("restored", images, from(group.Snapshots[0].ID)))
	wantContent(t, filepath.Join(r.stage(restored.ID, mounted), "file"), "one")
	r.unstage(restored.ID)
	for _, group := range []backend.ID{id, other} {
		for range 2 {
			if err := r.DeleteGroup(r.ctx(), group); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.GetGroup(r.ctx(), group); !fault.NotFound.Is(err) {
			t.Errorf("GetGroup after DeleteGroup: %v", err)
		}
	}
	r.delete(second.ID)
	r.delete(restored.ID)
	wantEmptyPool(t)
}

func TestRoom(t *testing.T) {
	r := newRig(t)
	r.create(r.request("room", images))
	for _, parameters := range []map[string]string{images, subvolumes} {
		room, err := r.AvailableFor(r.ctx(), parameters)
		if err != nil || room < 1<<30 || room > 8<<30 {
			t.Errorf("room of %v: %d, %v", parameters, room, err)
		}
	}
	if room, err := r.AvailableFor(r.ctx(), map[string]string{"pool": "none"}); err != nil || room != 0 {
		t.Errorf("room of no pool: %d, %v", room, err)
	}
}

func TestUserAndPlaceOfRequests(t *testing.T) {
	r := newRig(t)
	request := r.request("who", images)
	if _, err := r.Create(t.Context(), request); !fault.Unready.Is(err) || !strings.Contains(err.Error(), "no secrets") {
		t.Errorf("without secrets: %v", err)
	}
	wrong := backend.WithSecrets(t.Context(), backend.NewSecrets(map[string]string{"userID": "nobody", "userKey": userKey}))
	_, err := r.Create(wrong, request)
	if !fault.Unidentified.Is(err) || strings.Contains(err.Error(), userKey) {
		t.Errorf("a wrong user: %v", err)
	}
	elsewhere := r.request("who", map[string]string{"pool": pool, "clusterID": "other"})
	if _, err := r.Create(r.ctx(), elsewhere); !fault.Unready.Is(err) || !strings.Contains(err.Error(), "other.conf") {
		t.Errorf("an unknown cluster: %v", err)
	}
	none := r.request("who", map[string]string{"pool": "none"})
	if _, err := r.Create(r.ctx(), none); !fault.Invalid.Is(err) || !strings.Contains(err.Error(), `pool "none" does not exist`) {
		t.Errorf("an unknown pool: %v", err)
	}
}
