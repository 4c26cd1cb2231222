package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"

	"golang.org/x/sys/unix"

	"github.com/purser-csi/purser/internal/driver/fault"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// impatiently calls with a deadline that ends before the work does.
func impatiently(t *testing.T, call func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := call(ctx); !fault.Busy.Is(err) || !strings.Contains(err.Error(), "goes on") {
		t.Fatalf("%v, want busy with what goes on", err)
	}
}

// slowPool is a pool without shared copies. Each copy waits for the channel and is counted.
func slowPool(t *testing.T) (r *rig, let chan struct{}, copies *int) {
	r = poolRig(t, filesystem.Ext4, 256*mebi, Config{})
	let, copies = make(chan struct{}), new(int)
	look := r.space.Look
	r.space.Look = func() (Disk, error) {
		<-let
		*copies++ // under the lock of the free space
		return look()
	}
	return r, let, copies
}

// 3.1: a copy that takes longer than its caller waits is made once and goes on, and a later call
// gets it. A delete meanwhile is refused.
func TestALongCopyGoesOn(t *testing.T) {
	r, let, looks := slowPool(t)
	v := r.create(request("vol", blockAccess, 4*mebi))
	write(t, r.imageOf(v.ID), "data", some)
	clone := request("clone", blockAccess, 4*mebi)
	clone.Source.Volume = v.ID
	snap := backend.SnapshotRequest{ID: backend.IDOf("snap"), Name: "snap", Source: v.ID}
	calls := map[string]func(context.Context) error{
		"snapshot": func(ctx context.Context) error { _, err := r.CreateSnapshot(ctx, snap); return err },
		"clone":    func(ctx context.Context) error { _, err := r.Create(ctx, clone); return err },
		"group":    func(ctx context.Context) error { _, err := r.CreateGroup(ctx, groupRequest("group", v.ID)); return err },
	}
	for range 3 {
		for _, call := range calls {
			impatiently(t, call)
		}
	}
	for what, err := range map[string]error{
		"snapshot": r.DeleteSnapshot(t.Context(), snap.ID), "clone": r.Delete(t.Context(), clone.ID), "group": r.DeleteGroup(t.Context(), backend.IDOf("group")),
	} {
		if !fault.Busy.Is(err) {
			t.Errorf("delete of the %s: %v, want busy", what, err)
		}
	}
	close(let)
	for what, call := range calls {
		// The driver asks first whether it is there.
		if exists(r.snapshotDir(snap.ID)) && what == "snapshot" || exists(r.volumeDir(clone.ID)) && what == "clone" || exists(r.groupDir(backend.IDOf("group"))) && what == "group" {
			continue
		}
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := r.Close(); err != nil { // and nothing goes on
		t.Fatal(err)
	}
	// Each was looked up once when it was booked and once when it was written.
	if *looks != 2*len(calls) {
		t.Errorf("the pool was looked at %d times for %d copies", *looks, len(calls))
	}
	wantContent(t, filepath.Join(r.snapshotDir(snap.ID), imageFile), "data", some)
	wantContent(t, r.imageOf(clone.ID), "data", some)
}

// An mkfs that takes longer than the kubelet waits is not killed and restarted.
func TestALongMkfsGoesOn(t *testing.T) {
	r := newRig(t)
	real, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skipf("needs mkfs.ext4 in PATH: %v", err)
	}
	tools := t.TempDir()
	gate, runs := filepath.Join(tools, "gate"), filepath.Join(tools, "runs")
	script := fmt.Sprintf("#!/bin/sh\necho run >> %s\nread -r x < %s\nexec %s \"$@\"\n", runs, gate, real)
	if err := errors.Join(unix.Mkfifo(gate, 0o600), os.WriteFile(filepath.Join(tools, "mkfs.ext4"), []byte(script), 0o700)); err != nil {
		t.Fatal(err)
	}
	c := mountOf(filesystem.Ext4)
	v := r.create(request("vol", c, 16*mebi))
	t.Setenv("PATH", tools+":"+os.Getenv("PATH"))
	s := r.staging(v.ID, c)
	for range 3 {
		impatiently(t, func(ctx context.Context) error { return r.Stage(ctx, s) })
	}
	if err := r.Unstage(t.Context(), v.ID, s.Path); !fault.Busy.Is(err) {
		t.Errorf("Unstage: %v, want busy", err)
	}
	if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	write(t, r.stage(v.ID, c), "file", some)
	if count, err := os.ReadFile(runs); err != nil || string(count) != "run\n" {
		t.Errorf("mkfs ran %q, %v, want once", count, err)
	}
}
