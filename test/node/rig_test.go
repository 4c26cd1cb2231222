package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/driver/backend/loopfile"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/mount"
	"github.com/purser-csi/purser/internal/names"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/node"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if root := os.Getenv(childRoot); root != "" {
		if err := beAgent(root); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
		}
		return
	}
	os.Exit(m.Run())
}

const (
	driverName = "test.purser"
	nodeName   = "n1"
	timeout    = 60 * time.Second
)

// rig is an API server, a driver behind a proxy, and an agent.
type rig struct {
	client.Client
	t        *testing.T
	api      *rest.Config
	config   string // kubeconfig
	root     string // of the agent
	proxy    *proxy
	conn     *csirpc.Conn // of the driver itself
	requests *counter
	layout   mounting.Layout

	kubelet          cluster.Binaries // of a kubelet and containerd, in tests that run them
	front            string           // socket of the proxy
	dir              string
	edits            []func(*driver.Driver)
	stopDriver       func()
	stopAgent        func()
	stopRegistration func()
}

// newRig starts everything but the agent. Edits change the driver.
func newRig(t *testing.T, edits ...func(*driver.Driver)) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("volumes are mounted, which takes root")
	}
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), filepath.Join("..", "..", "bin"))
	if err != nil {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "pn") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := mount.CleanBelow(dir); len(left) > 0 || err != nil {
			t.Errorf("left mounted: %v, %v", left, err)
		}
		if _, err := loopfile.DetachBelow(context.Background(), dir); err != nil {
			t.Errorf("leave no loop device behind: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	c, err := cluster.Start(t.Context(), cluster.Config{Dir: filepath.Join(dir, "c"), Binaries: binaries})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop(context.Background()) })
	api, err := client.New(c.RESTConfig(), client.Options{Scheme: kube.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Client: api, t: t, api: c.RESTConfig(), config: c.Kubeconfig(), root: filepath.Join(dir, "k"), requests: &counter{}, edits: edits}
	r.layout = mounting.Layout{Root: r.root}
	r.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}})
	r.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	r.startDriver(dir)
	return r
}

func (r *rig) create(o client.Object) {
	r.t.Helper()
	if err := r.Create(r.t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
		r.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// startDriver runs the built-in driver, and the proxy and its registration in front of it.
func (r *rig) startDriver(dir string) {
	r.t.Helper()
	r.dir = dir
	endpoint := r.runDriver()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: endpoint, Timeout: timeout})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() })
	ready, cancel := context.WithTimeout(r.t.Context(), timeout)
	defer cancel()
	if err := conn.WaitReady(ready, func(error) {}); err != nil {
		r.t.Fatal(err)
	}
	r.conn = conn
	front := filepath.Join(dir, "p.sock")
	r.proxy = newProxy(r.t, filepath.Join(dir, "d.sock"), front)
	if err := os.MkdirAll(r.layout.Registrations(), 0o750); err != nil {
		r.t.Fatal(err)
	}
	r.front = front
	r.startRegistration()
	r.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
}

// runDriver runs the driver behind the proxy until stopDriver is called, or the test ends.
func (r *rig) runDriver() (endpoint string) {
	d := driver.New()
	d.Log, d.Name, d.NodeID = quiet(), driverName, "node-id-1"
	d.Endpoint, d.StateDir, d.Backend = "unix://"+filepath.Join(r.dir, "d.sock"), filepath.Join(r.dir, "d"), "loopfile"
	for _, edit := range r.edits {
		edit(d)
	}
	r.stopDriver = r.run("driver", d.Run)
	return d.Endpoint
}

// startRegistration places the registration socket of the driver.
func (r *rig) startRegistration() {
	r.t.Helper()
	server, err := driver.NewRegistration(driver.Config{Dir: r.layout.Registrations(), Name: driverName, Socket: r.front})
	if err != nil {
		r.t.Fatal(err)
	}
	r.stopRegistration = r.run("registration", server.Run)
}

// requireAttach has the volumes of the driver attached.
func (r *rig) requireAttach() {
	r.t.Helper()
	info := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
	if err := r.Delete(r.t.Context(), info); err != nil {
		r.t.Fatal(err)
	}
	r.create(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}})
}

// attach does what the attach-detach controller and the attacher do.
func (r *rig) attach(pv *corev1.PersistentVolume) {
	r.t.Helper()
	key := mounting.Key{Driver: driverName, Handle: pv.Spec.CSI.VolumeHandle}
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: names.AttachmentName(key.Handle, key.Driver, nodeName)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverName, NodeName: nodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name},
		},
	}
	r.create(va)
	va.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"dev": "a"}}
	if err := r.Status().Update(r.t.Context(), va); err != nil {
		r.t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"status":{"volumesAttached":[{"name":%q,"devicePath":""}]}}`, key.UniqueName())
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if err := r.Status().Patch(r.t.Context(), n, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		r.t.Fatal(err)
	}
}

// run runs a part until the returned function is called, or the test ends.
func (r *rig) run(name string, do func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("%s ended: %v", name, err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// start runs an agent.
func (r *rig) start(edits ...func(*node.Node)) {
	r.t.Helper()
	n := node.New()
	n.Log, n.NodeName, n.RootDir = r.logger(), nodeName, r.root
	n.RetryStart, n.RetryMax = 50*time.Millisecond, time.Second
	n.API = rest.CopyConfig(r.api)
	n.API.Wrap(r.requests.counting)
	for _, edit := range edits {
		edit(n)
	}
	if err := n.Validate(); err != nil {
		r.t.Fatal(err)
	}
	started := make(chan struct{})
	n.Started = func() { close(started) }
	r.stopAgent = r.run("agent", n.Run)
	select {
	case <-started:
	case <-time.After(timeout):
		r.t.Fatal("the agent does not start")
	}
}

func (r *rig) logger() logr.Logger {
	if !testing.Verbose() {
		return quiet()
	}
	return testLogger(r.t)
}

// volume makes a volume and a claim that is bound to it; edits change the PersistentVolume.
func (r *rig) volume(name string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	r.t.Helper()
	size := resource.MustParse("32Mi")
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: size}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, FSType: "ext4"}},
		ClaimRef:               &corev1.ObjectReference{Namespace: "default", Name: name}, StorageClassName: "none",
	}}
	for _, edit := range edits {
		edit(pv)
	}
	if pv.Spec.CSI.VolumeHandle == "" {
		created, err := r.conn.Controller().CreateVolume(r.t.Context(), &csi.CreateVolumeRequest{
			Name: pv.Name, CapacityRange: &csi.CapacityRange{RequiredBytes: size.Value()}, VolumeCapabilities: []*csi.VolumeCapability{capabilityOf(pv)},
		})
		if err != nil {
			r.t.Fatal(err)
		}
		pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.VolumeAttributes = created.Volume.VolumeId, created.Volume.VolumeContext
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("none"), AccessModes: pv.Spec.AccessModes, VolumeName: pv.Name, VolumeMode: pv.Spec.VolumeMode,
		Resources: corev1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
	}}
	r.create(claim)
	pv.Spec.ClaimRef.UID = claim.UID
	r.create(pv)
	r.bind(claim, pv)
	return pv
}

func (r *rig) bind(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	r.t.Helper()
	claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = corev1.ClaimBound, pv.Spec.Capacity, pv.Spec.AccessModes
	if err := r.Status().Update(r.t.Context(), claim); err != nil {
		r.t.Fatal(err)
	}
}

func capabilityOf(pv *corev1.PersistentVolume) *csi.VolumeCapability {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if isBlock(pv) {
		c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: pv.Spec.CSI.FSType}}
	}
	return c
}

func isBlock(pv *corev1.PersistentVolume) bool {
	return pv.Spec.VolumeMode != nil && *pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// claimed is a volume of a pod with the claim's name.
func claimed(claim string) corev1.Volume {
	return corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// pod creates a pod on the node that mounts the volumes.
func (r *rig) pod(name string, volumes []corev1.Volume, edits ...func(*corev1.Pod)) *corev1.Pod {
	r.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName: nodeName, Volumes: volumes, Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(1)),
			AutomountServiceAccountToken: new(false),
		},
	}
	for i := range volumes {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{
			Name: volumes[i].Name, MountPath: "/" + volumes[i].Name,
		})
	}
	for _, edit := range edits {
		edit(pod)
	}
	r.create(pod)
	return pod
}

// asDevices has the pod use its volumes as devices.
func asDevices(pod *corev1.Pod) {
	c := &pod.Spec.Containers[0]
	for _, m := range c.VolumeMounts {
		c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: m.Name, DevicePath: "/dev/" + m.Name})
	}
	c.VolumeMounts = nil
}

func (r *rig) target(pod *corev1.Pod, pv *corev1.PersistentVolume) string {
	return r.layout.Target(publicationOf(pod, pv))
}

func publicationOf(pod *corev1.Pod, pv *corev1.PersistentVolume) mounting.ID {
	id := mounting.ID{Pod: pod.UID, Spec: pv.Name, Mode: mounting.Filesystem}
	if isBlock(pv) {
		id.Mode = mounting.Block
	}
	return id
}
