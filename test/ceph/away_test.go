package ceph

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// bound is what any answer may take while the cluster is away: ten seconds for
// a look at a mount, or five for a program, a second to end it, and the rest
// for a machine that has other things to do.
const bound = 25 * time.Second

// pause takes the cluster away, until the test is over at the latest.
func pause(t *testing.T) (resume func()) {
	t.Helper()
	resume = sync.OnceFunc(func() {
		if err := shared.Resume(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(resume)
	if err := shared.Pause(); err != nil {
		t.Fatal(err)
	}
	return resume
}

// CSI "Error Scheme": UNAVAILABLE, and the caller comes back. Nothing waits
// longer than its timeout, and what began before goes on after.
func TestAClusterThatIsAway(t *testing.T) {
	r := newRig(t)
	r.patience, r.grace = 5*time.Second, time.Second
	r.restart()
	image, folder := r.create(r.request("away", images)), r.create(r.request("away", subvolumes))
	on, in := r.stage(image.ID, mounted), r.stage(folder.ID, mounted)
	write(t, filepath.Join(on, "file"), "on the image")
	write(t, filepath.Join(in, "file"), "in the subvolume")

	resume := pause(t)
	var all sync.WaitGroup
	for what, call := range callsToACluster(t, r, image.ID, folder.ID) {
		all.Go(func() {
			began := time.Now()
			err := call()
			if took := time.Since(began); !fault.Away.Is(err) || took > bound {
				t.Errorf("%s: %v after %s, want away within %s", what, err, took, bound)
			} else if strings.Contains(err.Error(), userKey) {
				t.Errorf("%s: the error has the key", what)
			}
		})
	}
	all.Wait()
	for what, look := range looksAtTheNode(t, r, image.ID, folder.ID) {
		all.Go(func() {
			began := time.Now()
			err := look()
			if took := time.Since(began); took > bound {
				t.Errorf("%s: %v after %s", what, err, took)
			}
		})
	}
	all.Wait()
	resume()
	for _, id := range []backend.ID{image.ID, folder.ID} {
		busy(t, func() (string, error) { return r.Staged(t.Context(), id, r.stagingPath(id), backend.Mount) })
	}
	wantContent(t, filepath.Join(on, "file"), "on the image")
	wantContent(t, filepath.Join(in, "file"), "in the subvolume")
}

func callsToACluster(t *testing.T, r *rig, image, folder backend.ID) map[string]func() error {
	t.Helper()
	calls := map[string]func() error{
		"list":           func() error { _, err := r.List(r.ctx()); return err },
		"list snapshots": func() error { _, err := r.ListSnapshots(r.ctx()); return err },
		"limits":         func() error { return r.Modify(r.ctx(), image, map[string]string{"rbd_qos_iops_limit": "1"}) },
	}
	for kind, parameters := range map[string]map[string]string{"image": images, "subvolume": subvolumes} {
		id := map[string]backend.ID{"image": image, "subvolume": folder}[kind]
		request := r.request("new", parameters)
		snapshot, err := r.SnapshotID("new", id)
		if err != nil {
			t.Fatal(err)
		}
		staging := backend.Staging{Volume: request.ID, Path: r.stagingPath(request.ID), Capability: mounted}
		calls["create "+kind] = func() error { _, err := r.Create(r.ctx(), request); return err }
		calls["get "+kind] = func() error { _, err := r.Get(r.ctx(), id); return err }
		calls["delete "+kind] = func() error { return r.Delete(r.ctx(), id) }
		calls["expand "+kind] = func() error { _, err := r.Expand(r.ctx(), id, backend.Range{Required: 64 * mebi}); return err }
		calls["room of "+kind] = func() error { _, err := r.AvailableFor(r.ctx(), parameters); return err }
		calls["stage "+kind] = func() error { return r.Stage(r.ctx(), staging) }
		calls["snapshot of "+kind] = func() error {
			_, err := r.CreateSnapshot(r.ctx(), backend.SnapshotRequest{ID: snapshot, Name: "new", Source: id})
			return err
		}
	}
	return calls
}

// looksAtTheNode may find an answer in the memory of the kernel.
func looksAtTheNode(t *testing.T, r *rig, volumes ...backend.ID) map[string]func() error {
	t.Helper()
	looks := map[string]func() error{}
	for _, id := range volumes {
		path := r.stagingPath(id)
		looks["staged "+id.String()] = func() error { _, err := r.Staged(t.Context(), id, path, backend.Mount); return err }
		looks["usage "+id.String()] = func() error { _, err := r.Usage(t.Context(), id, path); return err }
		looks["health "+id.String()] = func() error { _, err := r.Health(r.ctx(), id); return err }
	}
	return looks
}

// What a pod wrote last is only in memory, so the unmount waits for the
// cluster, in the kernel, where no signal reaches it.
func TestAHangingUnstageReleasesItsCaller(t *testing.T) {
	r := newRig(t)
	r.grace = time.Second
	r.restart()
	volume, other := r.create(r.request("hangs", images)), r.create(r.request("well", images))
	path := r.stage(volume.ID, mounted)
	file, err := os.Create(filepath.Join(path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}

	resume := pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	began := time.Now()
	err = r.Unstage(ctx, volume.ID, path)
	if took := time.Since(began); !fault.Away.Is(err) || took > bound {
		t.Errorf("unstage: %v after %s, want away", err, took)
	}
	if err := r.Unstage(t.Context(), volume.ID, path); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "has been hanging since") {
		t.Errorf("unstage again: %v, want busy and what hangs", err)
	}
	if err := r.Unstage(t.Context(), other.ID, r.stagingPath(other.ID)); err != nil {
		t.Errorf("another volume: %v", err)
	}
	resume()
	busy(t, func() (struct{}, error) { return struct{}{}, r.Unstage(t.Context(), volume.ID, path) })
	wantContent(t, filepath.Join(r.stage(volume.ID, mounted), "file"), "late")
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Error("the staging path is gone")
	}
}
