package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/cluster/kubelet"
	"github.com/purser-csi/purser/internal/cluster/pki"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/containers"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	m.Run()
}

const (
	nodeName = "first"
	patience = 3 * time.Minute // two cores, and images that are unpacked
	root     = "../.."
	tag      = "test"
)

// rig is a cluster of real components with one kubelet, and nothing of Purser in it.
type rig struct {
	client.Client
	t       *testing.T
	cluster *cluster.Cluster
	runtime *kubelet.Runtime
	dir     string
	gates   []string
	volumes bool // kube-controller-manager runs its volume controllers, as in most clusters
	// authority is the file with the authority of the certificate that the API server shows to the kubelet.
	authority string
}

// newRig starts a cluster whose API server and kubelet have the given features switched on. Its volume
// controllers are left to Purser.
func newRig(t *testing.T, gates ...string) *rig {
	t.Helper()
	return startRig(&rig{t: t, gates: gates})
}

func startRig(r *rig) *rig {
	t := r.t
	t.Helper()
	if os.Getenv("KUBELET") == "" {
		t.Skip("KUBELET is not set; run make test-kubelet")
	}
	for _, image := range []string{"purser", "purser-driver"} {
		if _, err := os.Stat(filepath.Join(root, "bin", "images", image)); err != nil {
			t.Skipf("the images are not there; run make driver-image: %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "pk") // the path of a socket is short
	must(t, err)
	t.Cleanup(func() {
		if left, err := mount.CleanBelow(dir); len(left) > 0 || err != nil {
			t.Errorf("left mounted: %v, %v", left, err)
		}
		if _, err := loopfile.DetachBelow(context.Background(), dir); err != nil {
			t.Errorf("leave no loop device behind: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	r.dir = dir
	r.startCluster()
	r.startRuntime()
	r.startKubelet()
	return r
}

// startCluster starts the controllers of kube-controller-manager that make pods of the chart's objects.
func (r *rig) startCluster() {
	r.t.Helper()
	components := cluster.Components{cluster.Scheduler, cluster.ControllerManager}
	bin := filepath.Join(root, "bin")
	binaries, err := cluster.FindBinaries(components.Programs(), bin)
	if err != nil {
		r.t.Skip(err)
	}
	authority, err := pki.Open(filepath.Join(r.dir, "p"), time.Now())
	must(r.t, err)
	pair, err := authority.Issue(pki.Spec{Name: "client", User: "kube-apiserver"})
	must(r.t, err)
	r.authority = authority.Cert()
	args := []string{
		"--kubelet-client-certificate=" + pair.Cert, "--kubelet-client-key=" + pair.Key,
		"--kubelet-preferred-address-types=InternalIP",
	}
	for _, gate := range r.gates {
		args = append(args, "--feature-gates="+gate+"=true")
	}
	controllers := append(cluster.HousekeepingControllers(),
		"deployment-controller", "replicaset-controller", "daemonset-controller", "statefulset-controller",
		"disruption-controller")
	if r.volumes {
		controllers = append(controllers, cluster.VolumeControllers()...)
		controllers = append(controllers,
			"persistentvolume-attach-detach-controller", "persistentvolume-expander-controller")
	}
	r.cluster, err = cluster.Start(r.t.Context(), cluster.Config{
		Dir: filepath.Join(r.dir, "c"), Binaries: binaries, Components: components, Controllers: controllers,
		ExtraArgs: map[cluster.Component][]string{cluster.APIServer: args},
	})
	must(r.t, err)
	r.t.Cleanup(func() { _ = r.cluster.Stop(context.Background()) })
	must(r.t, r.cluster.Install(r.t.Context(), cluster.FindResources(bin)...))
	scheme := kube.NewScheme()
	must(r.t, errors.Join(appsv1.AddToScheme(scheme), rbacv1.AddToScheme(scheme)))
	r.Client, err = client.New(r.cluster.RESTConfig(), client.Options{Scheme: scheme})
	must(r.t, err)
}

// noNetwork has the node be ready. Its plugin is never called: the pods have the network of their node.
const noNetwork = `{"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "none"}]}`

// startRuntime starts containerd with the images.
func (r *rig) startRuntime() {
	r.t.Helper()
	binaries, err := kubelet.FindPrograms(filepath.Join(root, "bin"))
	if err != nil {
		r.t.Skip(err)
	}
	folder, networks := filepath.Join(r.dir, "r"), filepath.Join(r.dir, "n")
	must(r.t, os.Mkdir(networks, 0o700))
	must(r.t, os.WriteFile(filepath.Join(networks, "none.conflist"), []byte(noNetwork), 0o600))
	r.runtime, err = kubelet.StartRuntime(r.t.Context(), kubelet.RuntimeConfig{
		Dir: folder, LogDir: r.dir, Binaries: binaries, Sandbox: containers.Name, Networks: networks,
	})
	must(r.t, err)
	r.t.Cleanup(func() {
		if err := r.runtime.Stop(context.Background()); err != nil {
			r.t.Error(err)
		}
	})
	app, err := containers.Image(folder)
	must(r.t, err)
	must(r.t, r.runtime.Import(r.t.Context(), app))
	for _, image := range []string{"purser", "purser-driver"} {
		r.importLayout(image)
	}
}

// importLayout imports an image as the chart's README says.
func (r *rig) importLayout(image string) {
	r.t.Helper()
	pack := exec.CommandContext(r.t.Context(), "tar", "-C", filepath.Join(root, "bin", "images", image), "-c", ".")
	load := exec.CommandContext(r.t.Context(), "ctr", "--address", r.runtime.Socket(), "--namespace", "k8s.io",
		"images", "import", "--index-name", "docker.io/library/"+image+":"+tag, "-")
	var out bytes.Buffer
	pack.Stderr, load.Stdout, load.Stderr = &out, &out, &out
	var err error
	load.Stdin, err = pack.StdoutPipe()
	if err := errors.Join(err, load.Start(), pack.Run(), load.Wait()); err != nil {
		r.t.Fatalf("import the image %s: %v: %s", image, err, out.String())
	}
}

// kubeletDir is the kubelet's folder on the node.
func (r *rig) kubeletDir() string { return filepath.Join(r.dir, "k") }

// stateDir is the driver's folder on the node.
func (r *rig) stateDir() string { return filepath.Join(r.dir, "s") }

func (r *rig) startKubelet() {
	r.t.Helper()
	binaries, err := kubelet.FindPrograms(filepath.Join(root, "bin"))
	must(r.t, err)
	child, err := kubelet.Start(kubelet.Config{
		Dir: filepath.Join(r.dir, "kc"), Root: r.kubeletDir(), LogDir: r.dir, Binaries: binaries,
		Kubeconfig: r.cluster.Kubeconfig(), NodeName: nodeName, Runtime: r.runtime.Socket(), Sync: 10 * time.Second,
		StatsPeriod: 5 * time.Second, Gates: r.gates, ServerPort: r.freePorts(1), ClientCA: r.authority,
	})
	must(r.t, err)
	r.t.Cleanup(func() { _ = syscall.Unmount(r.kubeletDir(), 0) }) // a kubelet makes its root directory a shared mount
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := child.Stop(ctx); err != nil {
			r.t.Error(err)
		}
	})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	r.eventually(func(ctx context.Context) error {
		if err := r.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the node is not ready: %+v", node.Status.Conditions)
	})
	// Admission taints each new node as not ready, and only the node lifecycle controller takes that back.
	must(r.t, r.Patch(r.t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"taints":null}}`))))
	// A kubelet does not report a loopback address, and the API server needs one for the logs of containers.
	must(r.t, r.Status().Patch(r.t.Context(), node, client.RawPatch(types.MergePatchType,
		[]byte(`{"status":{"addresses":[{"type":"InternalIP","address":"127.0.0.1"}]}}`))))
}

// server returns host and port of the API server.
func (r *rig) server() (host, port string) {
	at, err := url.Parse(r.cluster.RESTConfig().Host)
	must(r.t, err)
	return at.Hostname(), at.Port()
}

// freePorts returns as many ports in a row that nothing listens on.
func (r *rig) freePorts(count int) int {
	r.t.Helper()
	const attempts = 50
	for range attempts {
		var held []io.Closer
		first, taken := 0, false
		for i := 0; i < count && !taken; i++ {
			at := "0"
			if first > 0 {
				at = strconv.Itoa(first + i)
			}
			l, err := net.Listen("tcp", ":"+at)
			if taken = err != nil; !taken {
				held = append(held, l)
			}
			if i == 0 && !taken {
				first = l.Addr().(*net.TCPAddr).Port
			}
		}
		for _, l := range held {
			_ = l.Close()
		}
		if !taken {
			return first
		}
	}
	r.t.Fatalf("no %d free ports in a row", count)
	return 0
}

// render returns the objects of the chart.
func (r *rig) render(values string) (all []*unstructured.Unstructured) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "values.yaml")
	must(r.t, os.WriteFile(file, []byte(values), 0o600))
	render := exec.CommandContext(r.t.Context(), "go", "run", ".", "render", "../../deploy/chart", file)
	render.Dir, render.Env = filepath.Join(root, "tools", "chart"), append(os.Environ(), "GOWORK=off")
	var complaint bytes.Buffer
	render.Stderr = &complaint
	text, err := render.Output()
	if err != nil {
		r.t.Fatalf("render the chart: %v: %s", err, complaint.String())
	}
	return r.objectsOf(text)
}

// objectsOf returns the objects of manifests.
func (r *rig) objectsOf(text []byte) (all []*unstructured.Unstructured) {
	r.t.Helper()
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			r.t.Fatal(err)
		}
		if len(object.Object) > 0 { // a template may begin with a separator
			all = append(all, object)
		}
	}
}

// install applies the objects of the chart, and waits until every pod is ready.
func (r *rig) install(objects []*unstructured.Unstructured, pods int) {
	r.t.Helper()
	must(r.t, r.Create(r.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: process.SystemNamespace}}))
	for _, object := range objects {
		applied := client.ApplyConfigurationFromUnstructured(object.DeepCopy())
		if err := r.Apply(r.t.Context(), applied, client.FieldOwner("helm"), client.ForceOwnership); err != nil {
			r.t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	r.eventually(func(ctx context.Context) error {
		var list corev1.PodList
		if err := r.List(ctx, &list, client.InNamespace(process.SystemNamespace)); err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			if isReady(&list.Items[i]) {
				ready++
			}
		}
		if ready != pods || len(list.Items) != pods {
			return fmt.Errorf("%d of %d pods are ready:\n%s", ready, pods, r.story(ctx, list.Items))
		}
		return nil
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// story returns what is known of pods that are not ready.
func (r *rig) story(ctx context.Context, pods []corev1.Pod) string {
	var b bytes.Buffer
	for i := range pods {
		pod := &pods[i]
		if isReady(pod) {
			continue
		}
		fmt.Fprintf(&b, "%s is %s\n", pod.Name, pod.Status.Phase)
		for _, c := range pod.Status.ContainerStatuses {
			fmt.Fprintf(&b, "  %s: ready %t, %s\n", c.Name, c.Ready, c.State.String())
		}
	}
	var events corev1.EventList
	if err := r.List(ctx, &events); err != nil {
		return err.Error()
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Type == corev1.EventTypeWarning {
			fmt.Fprintf(&b, "%s %s: %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		}
	}
	return b.String()
}

// eventually waits until check has no error.
func (r *rig) eventually(check func(context.Context) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatalf("after %s: %v", patience, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
