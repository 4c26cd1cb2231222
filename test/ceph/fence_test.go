package ceph

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// What the error says is what a person does: then the image is free, and what
// the other node still has in memory goes nowhere.
func TestAFencedNodeLetsGo(t *testing.T) {
	lost, here := newRig(t), newRig(t)
	lost.grace = time.Second
	lost.restart()
	volume := lost.create(lost.request("fenced", images))
	path := lost.stage(volume.ID, mounted)
	write(t, filepath.Join(path, "file"), "kept")
	staging := backend.Staging{Volume: volume.ID, Path: here.stagingPath(volume.ID), Capability: mounted}
	err := here.Stage(here.ctx(), staging)
	if !fault.InUse.Is(err) {
		t.Fatalf("stage: %v, want in use", err)
	}
	_, command, found := strings.Cut(err.Error(), "dead for good: ")
	if !found {
		t.Fatalf("no advice: %v", err)
	}
	if _, err := shared.Run(t.Context(), strings.Fields(command)...); err != nil {
		t.Fatal(err)
	}

	busyWatchers(t, here, volume.ID)
	wantContent(t, filepath.Join(here.stage(volume.ID, mounted), "file"), "kept")
	if late, err := os.Create(filepath.Join(path, "late")); err == nil {
		_, _ = late.WriteString("must not arrive") // is in memory, and stays there
		_ = late.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	if err := lost.Unstage(ctx, volume.ID, path); err == nil {
		t.Error("a fenced node wrote to the image")
	} else {
		t.Log(err)
	}
	// The daemon of a fenced node waits to be let in again. Without it, what
	// waits for it fails at once.
	killDaemon(t, "rbd-fuse", lost.dir)
	busy(t, func() (struct{}, error) { return struct{}{}, lost.Unstage(t.Context(), volume.ID, path) })

	here.unstage(volume.ID)
	busyWatchers(t, here, volume.ID)
	again := here.stage(volume.ID, mounted)
	wantContent(t, filepath.Join(again, "file"), "kept")
	if _, err := os.Stat(filepath.Join(again, "late")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the fenced node wrote: %v", err)
	}
}
