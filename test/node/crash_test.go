package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/purser-csi/purser/internal/mount"
)

// The agent is killed at each call to the driver, before the driver sees it and after the driver has
// done it, and started again: nothing is mounted twice, the data stays, and nothing is left.
func TestCrashSweep(t *testing.T) {
	program, err := filepath.Abs(filepath.Join("..", "..", "bin", "purser"))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Skip(err)
	}
	r := newRig(t)
	kinds := []string{"fs", "raw"}
	for _, kind := range kinds {
		if kind == "raw" {
			r.volume(kind, asBlock)
		} else {
			r.volume(kind)
		}
	}
	// A life has 8 calls: 4 for each of the two volumes.
	for at := 1; at <= 8; at++ {
		for _, when := range []moment{before, after} {
			t.Run(fmt.Sprintf("%s call %d", when, at), func(t *testing.T) {
				r.crashAt(t, program, at, when)
			})
		}
	}
}

type moment string

const (
	before moment = "before"
	after  moment = "after"
)

// agent is an agent in a process of its own.
type agent struct {
	mu      sync.Mutex
	program string
	command *exec.Cmd
}

func (a *agent) start(r *rig) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.command = exec.Command(a.program, "node", "--node-name", nodeName, "--root-dir", r.root, "--retry-interval-start", "50ms")
	a.command.Env = append(os.Environ(), "KUBECONFIG="+r.config)
	a.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := a.command.Start(); err != nil {
		r.t.Error(err)
	}
}

// kill ends the process at once, and returns when it is gone.
func (a *agent) kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.command.Process.Kill()
	_ = a.command.Wait()
}

// crashAt has a pod with both volumes come and go, and kills the agent once.
func (r *rig) crashAt(t *testing.T, program string, at int, when moment) {
	a := &agent{program: program}
	killed := make(chan struct{})
	var once sync.Once
	n := 0
	var mu sync.Mutex
	r.proxy.reset()
	crash := func(_ context.Context, method, _ string) error {
		if !slices.Contains([]string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}, method) {
			return nil
		}
		mu.Lock()
		n++
		now := n == at
		mu.Unlock()
		if now {
			once.Do(func() { a.kill(); close(killed) })
		}
		return nil
	}
	if when == before {
		r.proxy.setHook(crash)
	} else {
		r.proxy.setAfter(crash)
	}
	defer r.proxy.setHook(nil)
	defer r.proxy.setAfter(nil)
	a.start(r)
	defer func() { a.kill() }()
	go func() { <-killed; a.start(r) }()
	pod := r.pod("p", []corev1.Volume{claimed("fs"), claimed("raw")}, func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.VolumeMounts, c.VolumeDevices = c.VolumeMounts[:1], []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
	})
	r.waitPublished(pod)
	file := filepath.Join(r.layout.VolumeDir(pod.UID, "pv-fs"), "mount", fmt.Sprintf("f%d", time.Now().UnixNano()))
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	mounts, err := mount.Below(r.root)
	if err != nil {
		t.Fatal(err)
	}
	// The filesystem is staged and published; the device is published and in the global map.
	if unique := slices.Compact(slices.Sorted(slices.Values(mounts))); len(mounts) != 4 || len(unique) != 4 {
		t.Errorf("mounted: %v", mounts)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "x" {
		t.Errorf("%s, %v", got, err)
	}
	r.remove(pod)
	r.waitGone(pod)
	r.waitClean()
	select {
	case <-killed:
	case <-time.After(timeout):
		t.Errorf("the agent was not killed; %s", r.proxy.mounting())
	}
	if p, u := r.proxy.count("NodePublishVolume"), r.proxy.count("NodeUnpublishVolume"); p < 2 || u < 2 {
		t.Errorf("%d publish and %d unpublish calls", p, u)
	}
}
