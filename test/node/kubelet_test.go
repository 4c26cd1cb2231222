package node

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster/kubelet"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/test/containers"
)

// A kubelet with containerd mounts the volumes of pods of several kinds; the agent takes them over,
// and the kubelet takes them back: the folders and the metadata files are the same each time, no
// mount goes, and the containers go on. make test-kubelet runs it.
func TestTakeOverFromKubelet(t *testing.T) {
	r := newKubeletRig(t)
	runtime := r.startContainerd()
	stopKubelet := r.startKubelet(runtime)
	fsPV := r.volume("fs")
	r.volume("big", asXFS)
	r.volume("raw", asBlock)
	r.volume("same-handle", func(other *corev1.PersistentVolume) { other.Spec.CSI = fsPV.Spec.CSI.DeepCopy() })
	r.volume("options", func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} })
	r.volume("raw2", asBlock)
	nothing := func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil }
	pods := []*corev1.Pod{
		r.container("plain", []corev1.Volume{claimed("fs")}),
		r.container("again", []corev1.Volume{claimed("fs")}),
		r.container("xfs", []corev1.Volume{claimed("big")}),
		r.container("device", []corev1.Volume{claimed("raw")}, asDevices, nothing),
		r.container("same-handle", []corev1.Volume{claimed("same-handle")}), // the handle of another volume
		r.container("group", []corev1.Volume{claimed("options")}, func(p *corev1.Pod) {
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(4321))}
		}),
		r.container("reader", []corev1.Volume{claimed("fs")}, nothing, func(p *corev1.Pod) {
			p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		}),
		r.container("below", []corev1.Volume{claimed("big")}, func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts[0].SubPath = "sub"
		}),
		r.container("two", []corev1.Volume{claimed("fs"), claimed("big")}),
		r.container("both", []corev1.Volume{claimed("fs"), claimed("raw2")}, func(p *corev1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts, c.VolumeDevices = c.VolumeMounts[:1], []corev1.VolumeDevice{{Name: "raw2", DevicePath: "/dev/raw2"}}
		}),
	}
	const publications = 12
	r.waitRunning(pods...)
	if _, err := os.Stat(filepath.Join(r.target(pods[0], fsPV), "hello")); err != nil {
		t.Errorf("the container has not written: %v", err)
	}
	stopKubelet()
	want, mounts := r.tree(), r.mounts()
	t.Logf("%d files, folders and links of the kubelet", len(want))

	r.proxy.reset()
	r.start(func(n *node.Node) { n.Pods = "leave" })
	r.eventually("the agent has published all", func() bool { return r.proxy.count("NodePublishVolume") >= publications })
	r.stopAgent()
	r.compare("the agent", want, mounts)
	if got := r.proxy.count("NodeUnpublishVolume") + r.proxy.count("NodeUnstageVolume"); got > 0 {
		t.Errorf("%d volumes unmounted by the agent", got)
	}

	r.proxy.reset()
	stopKubelet = r.startKubelet(runtime)
	r.eventually("the kubelet has published all", func() bool { return r.proxy.count("NodePublishVolume") >= publications })
	r.compare("the kubelet again", want, mounts)
	if got := r.proxy.count("NodeUnpublishVolume") + r.proxy.count("NodeUnstageVolume"); got > 0 {
		t.Errorf("%d volumes unmounted by the kubelet", got)
	}
	r.remove(pods...)
	r.waitGone(pods...)
	r.eventually("nothing mounted", func() bool { return len(r.mounts()) == 0 })
	stopKubelet()
}

// newKubeletRig is a rig for a test with a real kubelet.
func newKubeletRig(t *testing.T) *rig {
	t.Helper()
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	return newRig(t)
}

func (r *rig) compare(who string, want map[string]string, mounts []string) {
	r.t.Helper()
	got := r.tree()
	for path, content := range want {
		if got[path] != content {
			r.t.Errorf("%s: %s is %q, the kubelet has %q", who, path, got[path], content)
		}
	}
	for path, content := range got {
		if _, ok := want[path]; !ok {
			r.t.Errorf("%s: %s is new: %q", who, path, content)
		}
	}
	if now := r.mounts(); !slices.Equal(now, mounts) {
		r.t.Errorf("%s: mounted %v, the kubelet had %v", who, now, mounts)
	}
}

// mounts are the mounts of volumes below the root directory, with repetitions.
func (r *rig) mounts() []string {
	r.t.Helper()
	all, err := mount.Below(r.root)
	if err != nil {
		r.t.Fatal(err)
	}
	var volumes []string
	for _, path := range all {
		if strings.Contains(path, "kubernetes.io~csi") || strings.Contains(path, "kubernetes.io/csi") {
			volumes = append(volumes, path)
		}
	}
	slices.Sort(volumes)
	return volumes
}

// tree are the folders, files and links of CSI volumes, with their modes and contents. What is in a
// volume is left out.
func (r *rig) tree() map[string]string {
	all := map[string]string{}
	dirs, _ := filepath.Glob(filepath.Join(r.layout.Pods(), "*", "volume*", "kubernetes.io~csi"))
	for _, dir := range append(dirs, r.layout.Plugins()) {
		_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := os.Lstat(path)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(r.root, path)
			mounted, _ := mount.IsPoint(path)
			switch {
			case mounted:
				all[rel] = "mount"
				if entry.IsDir() {
					return fs.SkipDir
				}
			case info.Mode()&fs.ModeSymlink != 0:
				all[rel], _ = os.Readlink(path)
			case entry.IsDir():
				all[rel] = info.Mode().String()
			default:
				content, _ := os.ReadFile(path)
				all[rel] = info.Mode().String() + " " + string(content)
			}
			return nil
		})
	}
	return all
}

// container creates a pod that a kubelet can run without a network and a registry.
func (r *rig) container(name string, volumes []corev1.Volume, edits ...func(*corev1.Pod)) *corev1.Pod {
	runs := func(p *corev1.Pod) {
		p.Spec.HostNetwork = true
		c := &p.Spec.Containers[0]
		c.Image, c.ImagePullPolicy = containers.Name, corev1.PullNever
		c.Args = []string{"write", "/" + volumes[0].Name + "/hello", "wait"}
	}
	return r.pod(name, volumes, append([]func(*corev1.Pod){runs}, edits...)...)
}

func (r *rig) waitRunning(pods ...*corev1.Pod) {
	r.t.Helper()
	for _, pod := range pods {
		r.eventually("pod "+pod.Name+" runs", func() bool {
			var now corev1.Pod
			return r.Get(r.t.Context(), client.ObjectKeyFromObject(pod), &now) == nil && now.Status.Phase == corev1.PodRunning
		})
	}
}

// startContainerd runs containerd with the image.
func (r *rig) startContainerd() *kubelet.Runtime {
	r.t.Helper()
	binaries, err := kubelet.FindPrograms(filepath.Join("..", "..", "bin"))
	if err != nil {
		r.t.Skip(err)
	}
	r.kubelet = binaries
	dir := filepath.Join(filepath.Dir(r.root), "r")
	runtime, err := kubelet.StartRuntime(r.t.Context(), kubelet.RuntimeConfig{
		Dir: dir, LogDir: filepath.Dir(r.root), Binaries: binaries, Sandbox: containers.Name,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := runtime.Stop(context.Background()); err != nil {
			r.t.Error(err)
		}
	})
	archive, err := containers.Image(dir)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := runtime.Import(r.t.Context(), archive); err != nil {
		r.t.Fatal(err)
	}
	return runtime
}

// startKubelet runs a kubelet on the root directory until the returned function is called, or the
// test ends. It is the administrator.
func (r *rig) startKubelet(runtime *kubelet.Runtime) (stop func()) {
	r.t.Helper()
	dir := filepath.Dir(r.root)
	child, err := kubelet.Start(kubelet.Config{
		Dir: filepath.Join(dir, "kc"), Root: r.root, LogDir: dir, Binaries: r.kubelet, Kubeconfig: r.config, NodeName: nodeName,
		Runtime: runtime.Socket(), Sync: 10 * time.Second,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = syscall.Unmount(r.root, 0) }) // a kubelet makes its root directory a shared mount
	stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if exit := child.Exit(); exit != nil {
			r.t.Error(exit)
		}
		if err := child.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}
