package ceph

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// What the error says is what a person does: then the image is free, and what
// the other node still has in memory goes nowhere.
func TestAFencedNodeLetsGo(t *testing.T) {
	lost, here := newRig(t), newRig(t)
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
	address := command[strings.LastIndex(command, " ")+1:]
	t.Cleanup(func() { _, _ = shared.Run(context.WithoutCancel(t.Context()), "ceph", "osd", "blocklist", "rm", address) })

	busyWatchers(t, here, volume.ID)
	wantContent(t, filepath.Join(here.stage(volume.ID, mounted), "file"), "kept")
	if late, err := os.Create(filepath.Join(path, "late")); err == nil {
		_, err = late.WriteString("must not arrive")
		if err == nil {
			err = late.Sync()
		}
		if err == nil {
			t.Error("a fenced node wrote to the image")
		}
		_ = late.Close()
	}
	wantContent(t, filepath.Join(here.stagingPath(volume.ID), "file"), "kept")
	// The first unstage may tell what was lost.
	if err := lost.Unstage(t.Context(), volume.ID, path); err != nil {
		t.Log(err)
	}
	lost.unstage(volume.ID)
}
