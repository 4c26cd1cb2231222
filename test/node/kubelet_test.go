package node

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/roles/node"
)

const image = "purser.local/app:1"

// A kubelet with containerd mounts the volumes of pods of several kinds; the agent takes them over,
// and the kubelet takes them back: the folders and the metadata files are the same each time, no
// mount goes, and the containers go on. make test-kubelet runs it.
func TestTakeOverFromKubelet(t *testing.T) {
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	r := newRig(t)
	runtime := r.startContainerd()
	stopKubelet := r.startKubelet(runtime)
	big := func(pv *corev1.PersistentVolume) {
		pv.Spec.CSI.FSType, pv.Spec.Capacity = "xfs", corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("320Mi")}
	}
	fsPV := r.volume("fs")
	r.volume("big", big)
	r.volume("raw", asBlock)
	r.volume("twin", func(twin *corev1.PersistentVolume) { twin.Spec.CSI = fsPV.Spec.CSI.DeepCopy() })
	r.volume("options", func(pv *corev1.PersistentVolume) { pv.Spec.MountOptions = []string{"noatime"} })
	r.volume("raw2", asBlock)
	nothing := func(p *corev1.Pod) { p.Spec.Containers[0].Args = nil }
	pods := []*corev1.Pod{
		r.container("plain", []corev1.Volume{claimed("fs")}),
		r.container("again", []corev1.Volume{claimed("fs")}),
		r.container("xfs", []corev1.Volume{claimed("big")}),
		r.container("device", []corev1.Volume{claimed("raw")}, asDevices, nothing),
		r.container("twin", []corev1.Volume{claimed("twin")}), // the handle of another volume
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
		c.Image, c.ImagePullPolicy = image, corev1.PullNever
		c.Args = []string{"write", "/" + volumes[0].Name + "/hello"}
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

// program runs a program until the returned function is called, or the test ends.
func (r *rig) program(name string, args ...string) (stop func()) {
	r.t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = filepath.Abs(filepath.Join("..", "..", "bin", name))
	}
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		r.t.Skipf("%s is missing: %v", name, err)
	}
	log, err := os.Create(filepath.Join(filepath.Dir(r.root), name+".log"))
	if err != nil {
		r.t.Fatal(err)
	}
	command := exec.Command(path, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return r.run(name, func(ctx context.Context) error {
		defer log.Close()
		if err := command.Start(); err != nil {
			return err
		}
		done := make(chan error, 1)
		go func() { done <- command.Wait() }()
		select {
		case err := <-done:
			content, _ := os.ReadFile(log.Name())
			return fmt.Errorf("%s ended: %w: %s", name, err, content[max(0, len(content)-2000):])
		case <-ctx.Done():
			_ = command.Process.Signal(syscall.SIGTERM)
			select {
			case <-done:
			case <-time.After(20 * time.Second):
				_ = command.Process.Kill()
				<-done
			}
			return nil
		}
	})
}

// startContainerd runs containerd with the image, and returns its socket.
func (r *rig) startContainerd() string {
	r.t.Helper()
	dir := filepath.Join(filepath.Dir(r.root), "r")
	socket := filepath.Join(dir, "c.sock")
	config := fmt.Sprintf(`version = 2
root = %[1]q
state = %[2]q
[grpc]
  address = %[3]q
[ttrpc]
  address = %[4]q
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = %[5]q
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket, socket+".ttrpc", image)
	r.write(filepath.Join(dir, "config.toml"), []byte(config))
	archive := filepath.Join(dir, "image.tar")
	r.write(archive, r.image(dir))
	r.program("containerd", "--config", filepath.Join(dir, "config.toml"))
	r.eventually("containerd answers", func() bool {
		return exec.Command("ctr", "-a", socket, "version").Run() == nil
	})
	if out, err := exec.Command("ctr", "-a", socket, "-n", "k8s.io", "images", "import", archive).CombinedOutput(); err != nil {
		r.t.Fatalf("import the image: %v: %s", err, out)
	}
	r.t.Cleanup(func() { // sandboxes outlive containerd
		for _, kind := range []string{"tasks", "containers"} {
			out, _ := exec.Command("ctr", "-a", socket, "-n", "k8s.io", kind, "ls", "-q").Output()
			for id := range strings.FieldsSeq(string(out)) {
				_ = exec.Command("ctr", "-a", socket, "-n", "k8s.io", kind, "rm", "-f", id).Run()
			}
		}
	})
	return socket
}

func (r *rig) write(path string, content []byte) {
	r.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o600)); err != nil {
		r.t.Fatal(err)
	}
}

const programSource = `package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) > 2 {
		if err := os.WriteFile(os.Args[2], []byte("hello"), 0o644); err != nil {
			panic(err)
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
}
`

// image is an OCI layout around one static program, as a tar archive.
func (r *rig) image(dir string) []byte {
	r.t.Helper()
	source := filepath.Join(dir, "app")
	r.write(filepath.Join(source, "main.go"), []byte(programSource))
	r.write(filepath.Join(source, "go.mod"), []byte("module app\n\ngo 1.26\n"))
	build := exec.Command("go", "build", "-o", "app", ".")
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		r.t.Fatalf("build the program of the image: %v: %s", err, out)
	}
	program, err := os.ReadFile(filepath.Join(source, "app"))
	if err != nil {
		r.t.Fatal(err)
	}
	files := map[string][]byte{}
	type object = map[string]any
	add := func(content []byte) (string, int) {
		sum := sha256.Sum256(content)
		files["blobs/sha256/"+hex.EncodeToString(sum[:])] = content
		return "sha256:" + hex.EncodeToString(sum[:]), len(content)
	}
	encode := func(v any) []byte {
		content, err := json.Marshal(v)
		if err != nil {
			r.t.Fatal(err)
		}
		return content
	}
	layer, layerSize := add(archiveOf(r.t, map[string][]byte{"app": program}))
	config, configSize := add(encode(object{
		"architecture": "amd64", "os": "linux", "config": object{"Entrypoint": []string{"/app"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{layer}},
	}))
	manifest, size := add(encode(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
		"config": object{"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": configSize},
		"layers": []object{{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": layerSize}},
	}))
	files["index.json"] = encode(object{"schemaVersion": 2, "manifests": []object{{
		"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": manifest, "size": size,
		"annotations": object{"io.containerd.image.name": image, "org.opencontainers.image.ref.name": "1"},
	}}})
	files["oci-layout"] = encode(object{"imageLayoutVersion": "1.0.0"})
	return archiveOf(r.t, files)
}

func archiveOf(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for name, content := range files {
		err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))})
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// startKubelet runs a kubelet on the root directory. It is the administrator.
func (r *rig) startKubelet(runtime string) (stop func()) {
	r.t.Helper()
	dir := filepath.Dir(r.root)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	config := fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
podLogsDir: %s
address: 127.0.0.1
port: %d
healthzPort: 0
readOnlyPort: 0
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: 1Mi, nodefs.available: 0%%, nodefs.inodesFree: 0%%, imagefs.available: 0%%}
syncFrequency: 10s
`, runtime, filepath.Join(dir, "podlogs"), port)
	r.write(filepath.Join(dir, "kubelet.yaml"), []byte(config))
	r.t.Cleanup(func() { _ = syscall.Unmount(r.root, 0) }) // a kubelet makes its root directory a shared mount
	return r.program("kubelet", "--config", filepath.Join(dir, "kubelet.yaml"), "--kubeconfig", r.config, "--root-dir", r.root,
		"--cert-dir", filepath.Join(dir, "kpki"), "--hostname-override", nodeName, "--node-ip", "127.0.0.1", "--v", "2")
}
