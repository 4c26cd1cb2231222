package loopfile

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/filesystem"
)

// childDir makes this program the victim of TestKilledAtAnyMoment.
const childDir = "LOOPFILE_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := live(dir); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

const killedBytes = 16 * mebi

// live creates, uses and deletes a volume, a snapshot and a clone. It prints each step after it is
// done, as a response would be sent.
func live(dir string) error {
	ctx := context.Background()
	b, err := New(Config{StateDir: filepath.Join(dir, "state")})
	if err != nil {
		return err
	}
	if err := b.Recover(ctx); err != nil {
		return err
	}
	c := mountOf(filesystem.Ext4)
	vol, snap := request("vol", c, killedBytes), backend.SnapshotRequest{ID: backend.IDOf("snap"), Name: "snap", Source: backend.IDOf("vol")}
	clone, path := request("clone", c, 2*killedBytes), filepath.Join(dir, "staging-vol")
	clone.Source.Snapshot = snap.ID
	steps := []struct {
		name string
		do   func() error
	}{
		{"begin", func() error { return nil }},
		{"create", func() error { _, err := b.Create(ctx, vol); return err }},
		{"stage", func() error { return b.Stage(ctx, backend.Staging{Volume: vol.ID, Path: path, Capability: c}) }},
		{"write", func() error { return writeSynced(filepath.Join(path, "file")) }},
		{"snapshot", func() error { _, err := b.CreateSnapshot(ctx, snap); return err }},
		{"clone", func() error { _, err := b.Create(ctx, clone); return err }},
		{"expand", func() error { _, err := b.Expand(ctx, vol.ID, backend.Range{Required: 2 * killedBytes}); return err }},
		{"unstage", func() error { return b.Unstage(ctx, vol.ID, path) }},
		{"grow", func() error { return b.Stage(ctx, backend.Staging{Volume: vol.ID, Path: path, Capability: c}) }},
		{"thick", func() error { return b.Modify(ctx, vol.ID, map[string]string{provisioningKey: "thick"}) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println(step.name)
	}
	return nil
}

func writeSynced(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(bytesOf("file", some)); err != nil {
		return err
	}
	return file.Sync()
}

// killAfter runs the child and says which steps it did.
func killAfter(t *testing.T, dir string, after time.Duration) (did map[string]bool, whole time.Duration) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childDir+"="+dir)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	did = map[string]bool{}
	var begun time.Time
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "failed") {
			t.Error(lines.Text())
		}
		if did[lines.Text()] = true; lines.Text() == "begin" {
			begun = time.Now()
			timer := time.AfterFunc(after, func() { _ = command.Process.Kill() })
			defer timer.Stop()
		}
	}
	whole = time.Since(begun)
	_ = command.Wait()
	return did, whole
}

// The driver is killed at random times. Reported steps are done, the interrupted step is done
// completely or not at all, and all calls can continue and delete everything.
func TestKilledAtAnyMoment(t *testing.T) {
	mayLoop(t)
	const rounds = 30
	dir := sandbox(t)
	_, whole := killAfter(t, dir, time.Hour)
	wantWhole(openRig(t, dir, Config{StateDir: filepath.Join(dir, "state")}), map[string]bool{"create": true, "write": true, "snapshot": true, "clone": true})
	last := map[string]int{}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		after := whole*time.Duration(round)/rounds + time.Duration(random.Int64N(int64(whole/rounds)+1))
		did, _ := killAfter(t, dir, after)
		last[fmt.Sprintf("%d of 10 steps", len(did))]++
		wantWhole(openRig(t, dir, Config{StateDir: filepath.Join(dir, "state")}), did)
		if t.Failed() {
			t.Fatalf("killed after %s, when these were done: %v", after, did)
		}
	}
	t.Logf("a life takes %s; killed after %v", whole, last)
}

func wantWhole(r *rig, did map[string]bool) {
	r.Helper()
	for _, dir := range []string{r.temp, r.trash, r.frozen} {
		wantEntries(r.TB, dir)
	}
	c := mountOf(filesystem.Ext4)
	for name, step := range map[string]string{"vol": "create", "clone": "clone"} {
		_, err := r.Get(r.Context(), backend.IDOf(name))
		if did[step] && err != nil {
			r.Errorf("%s was said to be there: %v", name, err)
		}
	}
	if _, err := r.GetSnapshot(r.Context(), backend.IDOf("snap")); did["snapshot"] && err != nil {
		r.Errorf("the snapshot was said to be there: %v", err)
	}
	ids, err := r.List(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, id := range ids {
		at := r.stage(id, c)
		if did["write"] {
			wantContent(r.TB, at, "file", some)
		}
		if problem, err := r.Health(r.Context(), id); err != nil || problem.Reason != "" {
			r.Errorf("Health of %s = %+v, %v", id, problem, err)
		}
		r.unstage(id)
		r.remove(id)
	}
	snapshots, err := r.ListSnapshots(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, id := range snapshots {
		if err := r.DeleteSnapshot(r.Context(), id); err != nil {
			r.Error(err)
		}
	}
	r.wantNoDevices()
	for _, dir := range r.folders() {
		wantEntries(r.TB, dir)
	}
}
