package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/e2e/leftover"
	"github.com/purser-csi/purser/test/e2e/life"
	"github.com/purser-csi/purser/test/e2e/stage"
)

// mustBeMount returns where the path is in the table of mounts.
func mustBeMount(t *testing.T, path string) string {
	t.Helper()
	mounts, err := leftover.Mounts(path)
	must(t, err)
	if !slices.Equal(mounts, []string{path}) {
		t.Fatalf("mounts at %s: %q", path, mounts)
	}
	return "mounted: " + path
}

// awaitAlone waits until no process of the data folder is left.
func awaitAlone(t *testing.T, dir string) {
	t.Helper()
	eventually(t, func(context.Context) error {
		left, err := leftover.Processes(dir)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("still running: %+v", left)
		}
		return err
	})
}

// `up` is killed with a volume in use. No child process survives it. The next `up` on the folder
// cleans up, has all objects, and finishes the work.
func TestKilledInUse(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	killed := start(t, stage.Config{DataDir: dir})
	l := &life.Life{Stage: killed, Examples: examples(t)}
	live(t, l.Begin())
	killed.Kill()
	awaitAlone(t, dir)
	if os.Geteuid() == 0 {
		mustBeMount(t, l.Target())
	}

	l.Stage = start(t, stage.Config{DataDir: dir})
	if os.Geteuid() == 0 {
		if !strings.Contains(l.Stage.Output(), "unmounted what was left (") {
			t.Errorf("does not tell of the mount that was left:\n%s", l.Stage.Output())
		}
		if mounts, err := leftover.Mounts(dir); err != nil || len(mounts) > 0 {
			t.Errorf("still mounted: %q, %v", mounts, err)
		}
	} else {
		t.Log("not root: no mount could be left")
	}
	if _, err := l.ReadBack(t.Context()); err != nil {
		t.Errorf("the data: %v", err)
	}
	must(t, l.Stage.Client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "sailor"}, &corev1.Pod{}))
	live(t, l.End())
	stop(t, l.Stage)
	if folders(t, l.Stage) != 0 {
		t.Errorf("%d volumes are left on disk", folders(t, l.Stage))
	}
}

// `up` is killed while it provisions many claims. After a restart each claim has exactly one
// volume, and no volume is left of claims that were deleted while their outcome was uncertain.
func TestKilledWhileProvisioning(t *testing.T) {
	t.Parallel()
	const many = 20
	dir := dataDir(t)
	killed := start(t, stage.Config{DataDir: dir})
	b := newTestNamespace(t, killed)
	var kept, givenUp []*corev1.PersistentVolumeClaim
	for i := range many {
		kept = append(kept, b.claim(t, fmt.Sprintf("kept-%d", i), ""))
		givenUp = append(givenUp, b.claim(t, fmt.Sprintf("given-up-%d", i), ""))
	}
	eventually(t, func(context.Context) error { return atLeast(folders(t, killed), many/2) })
	killed.Kill()
	t.Logf("killed with %d of %d volumes on disk", folders(t, killed), 2*many)
	awaitAlone(t, dir)

	b.Stage = start(t, stage.Config{DataDir: dir})
	for _, claim := range givenUp {
		b.delete(t, claim)
	}
	var volumes []*corev1.PersistentVolume
	for _, claim := range kept {
		volumes = append(volumes, b.awaitBound(t, claim))
	}
	b.awaitFolders(t, many)
	for _, claim := range kept {
		if !exists(t, b.folder(claim)) {
			t.Errorf("the volume of claim %s is not on disk", claim.Name)
		}
		b.delete(t, claim)
	}
	for _, pv := range volumes {
		b.awaitGone(t, pv)
	}
	b.awaitFolders(t, 0)
}

// awaitFolders waits until the built-in driver has this many volumes.
func (b testNamespace) awaitFolders(t *testing.T, want int) {
	t.Helper()
	eventually(t, func(context.Context) error {
		if got := folders(t, b.Stage); got != want {
			return fmt.Errorf("%d volumes on disk, want %d", got, want)
		}
		return nil
	})
}

// `up` is killed while it deletes volumes. After a restart all of them are deleted.
func TestKilledWhileDeleting(t *testing.T) {
	t.Parallel()
	const many = 20
	dir := dataDir(t)
	killed := start(t, stage.Config{DataDir: dir})
	b := newTestNamespace(t, killed)
	var claims []*corev1.PersistentVolumeClaim
	for i := range many {
		claims = append(claims, b.claim(t, fmt.Sprintf("claim-%d", i), ""))
	}
	var volumes []*corev1.PersistentVolume
	for _, claim := range claims {
		volumes = append(volumes, b.awaitBound(t, claim))
	}
	for _, claim := range claims {
		b.delete(t, claim)
	}
	eventually(t, func(context.Context) error { return atLeast(many-folders(t, killed), many/4) })
	killed.Kill()
	t.Logf("killed with %d of %d volumes on disk", folders(t, killed), many)
	awaitAlone(t, dir)

	b.Stage = start(t, stage.Config{DataDir: dir})
	for _, pv := range volumes {
		b.awaitGone(t, pv)
	}
	if got := folders(t, b.Stage); got != 0 {
		t.Errorf("%d volumes are left on disk", got)
	}
}

func atLeast(have, want int) error {
	if have < want {
		return fmt.Errorf("%d, want at least %d", have, want)
	}
	return nil
}

// When a component dies, `up` ends at once, names the component, and leaves nothing behind. Without
// etcd no request is answered, and `up` does not wait for answers.
func TestComponentDies(t *testing.T) {
	t.Parallel()
	for _, component := range []string{"kube-scheduler", "etcd"} {
		t.Run(component, func(t *testing.T) {
			t.Parallel()
			s := start(t, stage.Config{DataDir: dataDir(t)})
			processes, err := leftover.Processes(s.DataDir)
			must(t, err)
			for _, p := range processes {
				if strings.Contains(p.Command, component+" ") {
					must(t, kill(p.Pid))
				}
			}
			killed := time.Now()
			eventually(t, func(context.Context) error {
				if told := s.Output(); !strings.Contains(told, "✗ "+component+" ended: signal: killed") {
					return errors.New("up does not say what ended")
				}
				return nil
			})
			told := time.Since(killed)
			awaitEnd(t, s)
			t.Logf("told after %s, ended after %s", told.Round(time.Millisecond), time.Since(killed).Round(time.Millisecond))
			if s.ExitCode() != failure {
				t.Errorf("exit code %d:\n%s", s.ExitCode(), s.Output())
			}
			if err := nothingLeft(s.DataDir); err != nil {
				t.Error(err)
			}
		})
	}
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}
