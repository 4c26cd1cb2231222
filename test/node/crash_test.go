package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/test/tracer"
)

// The agent is killed before each of its system calls that changes something: a folder, a metadata
// file, a mount, a link, a loop device, an owner. Then it is started again, and either goes on or
// finds that its pod is gone. CRASH=whole leaves no call out.
func TestKilledBeforeEverySystemCall(t *testing.T) {
	c := newCrashRig(t)
	c.life(death{}) // makes the folders that stay
	whole := c.life(death{}).calls
	stride := 1
	if os.Getenv("CRASH") != "whole" {
		stride = max(1, len(whole)/6)
	}
	kills, met := 0, map[string]bool{}
	for last := 1; last <= len(whole) && !t.Failed(); last += stride {
		for _, podGone := range []bool{false, true} {
			if fatal := c.life(death{last: last, podGone: podGone}).fatal; fatal != "" {
				kills++
				met[fatal] = true
			}
		}
	}
	t.Logf("a life has %d system calls that change something; killed %d times, before %d different ones", len(whole), kills, len(met))
	for _, call := range whole {
		if stride == 1 && !met[call] && !t.Failed() {
			t.Errorf("not killed before %q", call)
		}
	}
}

// The agent is killed at each call to the driver, before the driver sees it and after the driver has
// done it, and started again.
func TestKilledAtEveryCall(t *testing.T) {
	c := newCrashRig(t)
	// A life has 8 calls: 4 for each of the two volumes.
	for at := 1; at <= 8 && !t.Failed(); at++ {
		for _, when := range []moment{before, after} {
			if c.life(death{at: at, when: when}).fatal == "" {
				t.Errorf("%s call %d: the agent was not killed; %s", when, at, c.proxy.mounting())
			}
		}
	}
}

type moment string

const (
	before moment = "before"
	after  moment = "after"
)

// death is where the first agent of a life is killed; the zero value is nowhere.
type death struct {
	last    int    // before the system call of this number
	at      int    // or at the call to the driver of this number
	when    moment // before or after that call
	podGone bool   // the pod is deleted by force before the next agent starts
}

func (d death) String() string {
	if d.at > 0 {
		return fmt.Sprintf("killed %s call %d", d.when, d.at)
	}
	return fmt.Sprintf("killed at system call %d, pod gone %t", d.last, d.podGone)
}

// crashRig has a volume with a filesystem and a raw block volume.
type crashRig struct {
	*rig
	fs, raw *corev1.PersistentVolume
	data    string // what the volumes hold
}

func newCrashRig(t *testing.T) *crashRig {
	t.Helper()
	if err := tracer.Usable(); err != nil {
		t.Skip(err)
	}
	r := newRig(t)
	return &crashRig{rig: r, fs: r.volume("fs"), raw: r.volume("raw", asBlock)}
}

// childRoot names to a child the root directory of the agent that it is.
const childRoot = "NODE_CRASH_TEST_ROOT"

// agent is an agent in a process of its own.
type agent struct {
	command *exec.Cmd
	ended   chan struct{}
	calls   []string // its system calls that change something, once ended
	fatal   string   // the one that was not made, once ended
}

// startAgent starts an agent that is killed before its system call number last; 0 is never.
func (c *crashRig) startAgent(last int) *agent {
	a := &agent{command: exec.Command(os.Args[0]), ended: make(chan struct{})}
	a.command.Env = append(os.Environ(), childRoot+"="+c.root, "KUBECONFIG="+c.config)
	a.command.Stderr = os.Stderr
	a.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	trace, err := tracer.Start(a.command, last, func(call tracer.Call) {
		a.calls = append(a.calls, c.short(call.String()))
		c.check(call)
	})
	if err != nil {
		c.t.Fatal(err)
	}
	go func() {
		defer close(a.ended)
		_ = a.command.Wait() // it was killed
		_, fatal, err := trace.Wait()
		if err != nil {
			c.t.Error(err)
		}
		a.fatal = c.short(fatal)
	}()
	return a
}

// beAgent is the main of a child.
func beAgent(root string) error {
	if err := tracer.Join(); err != nil {
		return err
	}
	n := node.New()
	n.Log, n.NodeName, n.RootDir = quiet(), nodeName, root
	n.RetryStart, n.RetryMax, n.StatsEvery = 50*time.Millisecond, time.Second, 0
	n.Workers, n.PerDriver = 1, 1 // so that the calls of two lives have the same order
	return n.Run(context.Background())
}

func (a *agent) kill() {
	_ = a.command.Process.Kill()
	<-a.ended
}

var uid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// short is a call as it is in each life.
func (c *crashRig) short(call string) string {
	return uid.ReplaceAllString(strings.ReplaceAll(call, c.root, ""), "UID")
}

// check is called before each system call of an agent: nothing is mounted on a mount, and
// neither a mount point nor anything in a mount is removed or replaced.
func (c *crashRig) check(call tracer.Call) {
	mounts, err := mount.Below(c.root)
	if err != nil {
		c.t.Error(err)
	}
	for _, at := range mounts {
		switch call.Name {
		case "mount":
			if call.Path == at && call.Arguments[3]&unix.MS_REMOUNT == 0 {
				c.t.Errorf("%s: it is mounted already", c.short(call.String()))
			}
		case "unlink", "rmdir", "rename":
			if call.Path == at || strings.HasPrefix(call.Path, at+"/") {
				c.t.Errorf("%s, and %s is mounted", c.short(call.String()), c.short(at))
			}
		}
	}
}

// life has a pod with both volumes come and go, and kills the first agent once.
func (c *crashRig) life(d death) (first *agent) {
	c.proxy.reset()
	pod := c.crashPod()
	started := make(chan struct{})
	var killed atomic.Bool
	c.atCall(d, func() { <-started; first.kill(); killed.Store(true) })
	defer c.proxy.setHook(nil)
	defer c.proxy.setAfter(nil)
	first = c.startAgent(d.last)
	close(started)
	next := make(chan *agent, 1)
	go func() {
		<-first.ended
		if d.podGone {
			c.deletePod(pod, client.GracePeriodSeconds(0))
		}
		next <- c.startAgent(0)
	}()
	if c.isPublishedInEnd(pod) {
		c.use(pod)
		c.deletePod(pod)
	}
	c.waitGone(pod)
	c.waitClean()
	c.mustHaveEnded(pod)
	if first.kill(); killed.Load() {
		first.fatal = d.String()
	}
	(<-next).kill()
	if c.t.Failed() {
		c.t.Logf("the agent was killed before %q: %s; calls to the driver: %s", first.fatal, d, c.proxy.mounting())
	}
	return first
}

// atCall has kill called at the call to the driver that the death says.
func (c *crashRig) atCall(d death, kill func()) {
	var mu sync.Mutex
	n := 0
	hook := func(_ context.Context, method, volume string) error {
		mu.Lock()
		defer mu.Unlock()
		if volume == "" {
			return nil
		}
		if n++; n == d.at {
			kill()
		}
		return nil
	}
	if d.when == before {
		c.proxy.setHook(hook)
	}
	if d.when == after {
		c.proxy.setAfter(hook)
	}
}

// crashPod uses both volumes, one of them with a group.
func (c *crashRig) crashPod() *corev1.Pod {
	return c.pod("p", []corev1.Volume{claimed("fs"), claimed("raw")}, func(p *corev1.Pod) {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4321))}
		container := &p.Spec.Containers[0]
		container.VolumeMounts = container.VolumeMounts[:1]
		container.VolumeDevices = []corev1.VolumeDevice{{Name: "raw", DevicePath: "/dev/raw"}}
	})
}

func (c *crashRig) deletePod(pod *corev1.Pod, options ...client.DeleteOption) {
	if err := c.Delete(c.t.Context(), pod.DeepCopy(), options...); client.IgnoreNotFound(err) != nil {
		c.t.Error(err)
	}
}

// isPublishedInEnd waits until the volumes of the pod are published, or it is gone.
func (c *crashRig) isPublishedInEnd(pod *corev1.Pod) (published bool) {
	c.t.Helper()
	c.eventually("the volumes of the pod published, or the pod gone", func() bool {
		published = c.condition(pod).Status == corev1.ConditionTrue
		return published || apierrors.IsNotFound(c.Get(c.t.Context(), client.ObjectKeyFromObject(pod), &corev1.Pod{}))
	})
	return published
}

// use finds each mount once and the data of the previous life, and writes that of this one. A mount
// for a subPath is what a kubelet leaves that ran here before.
func (c *crashRig) use(pod *corev1.Pod) {
	c.t.Helper()
	mounts, err := mount.Below(c.root)
	if err != nil {
		c.t.Fatal(err)
	}
	// The filesystem is staged and published; the device is published and in the global map.
	if unique := slices.Compact(slices.Sorted(slices.Values(mounts))); len(mounts) != 4 || len(unique) != 4 {
		c.t.Errorf("mounted: %v", mounts)
	}
	if got := c.loops(); len(got) != 3 {
		c.t.Errorf("loop devices of the two volumes and the lock: %q", got)
	}
	root, device := c.target(pod, c.fs), c.target(pod, c.raw)
	file := filepath.Join(root, "sub", "file")
	if want := c.data; want != "" {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			c.t.Errorf("the file has %q, %v, want %q", got, err, want)
		}
		if got := c.head(device, len(want)); got != want {
			c.t.Errorf("the device has %q, want %q", got, want)
		}
	}
	c.data = string(pod.UID)
	sub := filepath.Join(c.layout.Pod(pod.UID), "volume-subpaths", c.fs.Name, "c", "0")
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(c.data), 0o600), c.overwrite(device),
		os.MkdirAll(sub, 0o700), unix.Mount(filepath.Dir(file), sub, "", unix.MS_BIND, ""),
	} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

func (c *crashRig) overwrite(device string) error {
	file, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(c.data)
	return errors.Join(err, file.Close())
}

func (c *crashRig) head(device string, length int) string {
	file, err := os.Open(device)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	content := make([]byte, length)
	if _, err := io.ReadFull(file, content); err != nil {
		return err.Error()
	}
	return string(content)
}

// loops are the files of loop devices of this test.
func (c *crashRig) loops() (files []string) {
	c.t.Helper()
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, device := range devices {
		// A device of others can be detached between the two steps.
		if file, err := os.ReadFile(device); err == nil && strings.Contains(string(file), filepath.Base(c.dir)) {
			files = append(files, strings.TrimSpace(string(file)))
		}
	}
	return files
}

// mustHaveEnded finds that each path that was published or staged was at last unpublished or unstaged,
// and that neither a loop device nor the folder of a pod is left.
func (c *crashRig) mustHaveEnded(pod *corev1.Pod) {
	c.t.Helper()
	last := map[string]string{}
	for _, request := range requests[any](c.proxy) {
		switch r := request.(type) {
		case *csi.NodePublishVolumeRequest:
			last[r.TargetPath] = "published"
		case *csi.NodeStageVolumeRequest:
			last[r.StagingTargetPath] = "staged"
		case *csi.NodeUnpublishVolumeRequest:
			delete(last, r.TargetPath)
		case *csi.NodeUnstageVolumeRequest:
			delete(last, r.StagingTargetPath)
		}
	}
	if len(last) > 0 {
		c.t.Errorf("the driver was not told of the end of %v", last)
	}
	c.eventually("no loop device and no folder of the pod left", func() bool {
		_, err := os.Lstat(c.layout.Pod(pod.UID))
		return len(c.loops()) == 0 && errors.Is(err, fs.ErrNotExist)
	})
}
