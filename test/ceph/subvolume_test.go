package ceph

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

func TestASubvolumeKeepsItsDataThroughEverything(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("origin", subvolumes))
	got, err := r.Get(r.ctx(), volume.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(volume, got, cmp.AllowUnexported(backend.ID{})); diff != "" {
		t.Error(diff)
	}
	path := r.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "first"), "1")
	snapshot := r.snapshot("s", volume.ID)
	write(t, filepath.Join(path, "second"), "2")
	if snapshot.SizeBytes != 32*mebi || snapshot.Created.IsZero() || snapshot.Source != volume.ID || snapshot.Name != "s" {
		t.Errorf("snapshot: %+v", snapshot)
	}

	clone := r.create(r.request("clone", subvolumes, cloneOf(volume.ID)))
	at := r.stage(clone.ID, mounted)
	wantContent(t, filepath.Join(at, "second"), "2")

	r.restart()
	wantContent(t, filepath.Join(path, "second"), "2")
	if _, err := r.Staged(t.Context(), volume.ID, path, backend.Mount); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	e, err := r.Expand(r.ctx(), volume.ID, backend.Range{Required: 64 * mebi})
	if err != nil || e.CapacityBytes != 64*mebi {
		t.Errorf("expand: %+v, %v", e, err)
	}
	r.unstage(volume.ID)

	// The snapshot outlives its volume.
	r.delete(volume.ID)
	if _, err := r.Get(r.ctx(), volume.ID); !fault.NotFound.Is(err) {
		t.Errorf("Get after Delete: %v, want not found", err)
	}
	restored := r.create(r.request("restored", subvolumes, from(snapshot.ID)))
	at = r.stage(restored.ID, mounted)
	wantContent(t, filepath.Join(at, "first"), "1")
	if _, err := os.Stat(filepath.Join(at, "second")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the restored volume has what was written later: %v", err)
	}
	if ids, err := r.ListSnapshots(r.ctx()); err != nil || len(ids) != 1 || ids[0] != snapshot.ID {
		t.Errorf("ListSnapshots = %v, %v", ids, err)
	}
}

func TestAFullSubvolumeHarmsNoOther(t *testing.T) {
	r := newRig(t)
	full, other := r.create(r.request("full", subvolumes)), r.create(r.request("other", subvolumes))
	path, beside := r.stage(full.ID, mounted), r.stage(other.ID, mounted)
	file, err := os.Create(filepath.Join(path, "file"))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, mebi)
	for range 256 {
		if _, err = file.Write(block); err == nil {
			err = file.Sync()
		}
		if err != nil {
			break
		}
	}
	if !errors.Is(err, unix.EDQUOT) && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full volume: %v, want EDQUOT or ENOSPC", err)
	}
	_ = file.Close() // says the same again
	write(t, filepath.Join(beside, "file"), "well")
	usage, err := r.Usage(t.Context(), other.ID, beside)
	if err != nil || len(usage) != 1 || usage[0].Total != 32*mebi {
		t.Errorf("usage: %+v, %v, want the quota", usage, err)
	}
}

func TestADeadMountIsNoticedAndReplaced(t *testing.T) {
	r := newRig(t)
	volume := r.create(r.request("dead", subvolumes))
	path := r.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "file"), "kept")
	killDaemon(t, "ceph-fuse", path)
	if _, err := r.Staged(t.Context(), volume.ID, path, backend.Mount); !fault.Unready.Is(err) {
		t.Errorf("Staged without its daemon: %v, want unready", err)
	}
	if problem, err := r.Health(r.ctx(), volume.ID); err != nil || problem == "" {
		t.Errorf("Health: %q, %v, want a problem", problem, err)
	}
	wantContent(t, filepath.Join(r.stage(volume.ID, mounted), "file"), "kept")
}

func TestWhatSubvolumesCannotDo(t *testing.T) {
	r := newRig(t)
	for name, change := range map[string]func(*backend.Request){
		"block":   func(q *backend.Request) { q.Capabilities = []backend.Capability{raw} },
		"fs type": func(q *backend.Request) { q.Capabilities[0].FSType = "ext4" },
		"limits":  func(q *backend.Request) { q.Mutable = map[string]string{"rbd_qos_iops_limit": "1"} },
		"fs name": func(q *backend.Request) { q.Parameters = map[string]string{"kind": "cephfs", "fsName": "none"} },
	} {
		q := r.request("no", subvolumes, change)
		if name == "fs name" {
			q = r.request("no", q.Parameters)
		}
		if _, err := r.Create(r.ctx(), q); !fault.Invalid.Is(err) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
}
