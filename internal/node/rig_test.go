package node

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/scripted"
)

const nodeName, driverName = "n1", "d.test"

// api is an API server in memory. It counts its reads and writes.
type api struct {
	client.WithWatch
	mu            sync.Mutex
	reads, writes int
	failing       error // of writes
}

func newAPI(objects ...client.Object) *api {
	a := &api{}
	count := func(n *int) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		*n++
		if n == &a.writes {
			return a.failing
		}
		return nil
	}
	builder := fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(objects...).WithStatusSubresource(&corev1.Node{}, &corev1.Pod{})
	for _, index := range Indexes() {
		builder = builder.WithIndex(index.Kind, index.Field, index.Values)
	}
	a.WithWatch = builder.WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	}).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			_ = count(&a.reads)
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			_ = count(&a.reads)
			return c.List(ctx, l, opts...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if err := count(&a.writes); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}).Build()
	return a
}

func (a *api) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failing = err
}

func (a *api) counts() (reads, writes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads, a.writes
}

// newAgent is an agent on a folder of its own, whose cache and API server have the same objects.
func newAgent(t *testing.T, objects ...client.Object) (*Agent, *api) {
	t.Helper()
	root := scripted.SocketDir(t)
	server := newAPI(objects...)
	overlay := kube.NewOverlay(server, clock.RealClock{})
	overlay.Fed(&corev1.Node{}, &storagev1.CSINode{}, &corev1.PersistentVolumeClaim{})
	return New(Config{
		Settings: reconcile.Settings{Clock: clock.RealClock{}, Workers: 1, Events: record.NewFakeRecorder(100)}, Node: nodeName, Root: root, Cached: overlay, Live: server, Writer: overlay.Recording(server),
		Timeout: 10 * time.Second, PerDriver: 1, InFlight: telemetry.NewGauge(prometheus.NewRegistry(), telemetry.MetricInFlight),
	}), server
}

// driver answers each call with success, unless its hook fails the call.
type driver struct {
	scripted.Driver
	csi.UnimplementedNodeServer

	mu    sync.Mutex
	calls []string
	hook  func(ctx context.Context, method string) error
	stats *csi.NodeGetVolumeStatsResponse
	most  int64 // volumes per node
}

func (d *driver) intercept(ctx context.Context, r any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	method := path.Base(info.FullMethod)
	d.mu.Lock()
	if of, ok := r.(interface{ GetVolumeId() string }); ok {
		d.calls = append(d.calls, method+" "+of.GetVolumeId())
	}
	hook, stats, most := d.hook, d.stats, d.most
	d.mu.Unlock()
	if hook != nil {
		if err := hook(ctx, method); err != nil {
			return nil, err
		}
	}
	switch method {
	case "NodeGetCapabilities":
		answer := &csi.NodeGetCapabilitiesResponse{}
		for _, one := range []csi.NodeServiceCapability_RPC_Type{
			csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		} {
			answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{
				Rpc: &csi.NodeServiceCapability_RPC{Type: one},
			}})
		}
		return answer, nil
	case "NodeStageVolume":
		return &csi.NodeStageVolumeResponse{}, nil
	case "NodePublishVolume":
		return &csi.NodePublishVolumeResponse{}, nil
	case "NodeUnpublishVolume":
		return &csi.NodeUnpublishVolumeResponse{}, nil
	case "NodeUnstageVolume":
		return &csi.NodeUnstageVolumeResponse{}, nil
	case "NodeGetVolumeStats":
		return stats, nil
	}
	return &csi.NodeGetInfoResponse{NodeId: "id", MaxVolumesPerNode: most}, nil
}

// set replaces the hook.
func (d *driver) set(hook func(ctx context.Context, method string) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = hook
}

func (d *driver) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// serve answers at the agent's socket of the driver until the returned function is called.
func (d *driver) serve(t *testing.T, a *Agent) (stop func()) {
	t.Helper()
	server, err := scripted.Serve(t.Context(), filepath.Join(a.Root, d.Name), d, grpc.UnaryInterceptor(d.intercept))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server.Stop
}

// register serves a driver and makes it known to the agent.
func register(t *testing.T, a *Agent, name string) (*driver, func()) {
	t.Helper()
	d := &driver{Driver: scripted.Driver{Name: name}}
	stop := d.serve(t, a)
	r, err := a.drivers.connect(t.Context(), name, filepath.Join(a.Root, name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	a.drivers.add(r)
	return d, stop
}

// one is a pod with a claim and its volume, each under the same name.
func one(name string) (*corev1.Pod, *corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{
		NodeName: nodeName, Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}}},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name, AccessModes: modes},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: size},
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "h-" + name}},
	}}
	return pod, claim, pv
}

func keyOf(name string) mounting.Key { return mounting.Key{Driver: driverName, Handle: "h-" + name} }

func idOf(name string) mounting.ID {
	return mounting.ID{Pod: types.UID("uid-" + name), Spec: "pv-" + name, Mode: mounting.Filesystem}
}

func theNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "node"}}
}

func csiDriver(attach bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}}
}

// run does one run over a volume, up to the first step that fails.
func run(t *testing.T, a *Agent, key mounting.Key) {
	t.Helper()
	s, err := a.Gather(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	s, v, err := verdict.Settle(
		s, func(s mounting.Snapshot) mounting.Verdict { return a.Decide(s, a.Clock.Now()) },
		func(s mounting.Snapshot, refs []verdict.Ref) (mounting.Snapshot, error) {
			return a.Read(t.Context(), s, refs)
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	do, _ := v.(verdict.Do[mounting.Action])
	for _, action := range do.Actions {
		if end, err := a.Apply(t.Context(), s, action); err != nil || end != nil {
			return
		}
	}
}

func newQueue[K comparable]() workqueue.TypedRateLimitingInterface[K] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[K]())
}

// write makes a file with the folders that lead to it.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), fileMode); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
