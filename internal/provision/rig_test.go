package provision

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/purser-csi/purser/internal/csirpc"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/verdict"
	testdriver "github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "csi.example"
	marker     = "hunter2-the-marker"
	markerPEM  = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END KEY-----\n"
)

var secretRef = types.NamespacedName{Namespace: "vault", Name: "create"}

// driver answers as scripted, and may say aloud what it was given.
type driver struct {
	csi.UnimplementedControllerServer
	created, deleted []map[string]string // secrets of each call
	create, remove   codes.Code
	capacity         int64
	echo             func(secrets map[string]string) string
}

func (d *driver) CreateVolume(_ context.Context, r *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	d.created = append(d.created, r.GetSecrets())
	if d.create != codes.OK {
		return nil, status.Error(d.create, d.echo(r.GetSecrets()))
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{VolumeId: "h", CapacityBytes: d.capacity}}, nil
}

func (d *driver) DeleteVolume(_ context.Context, r *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	d.deleted = append(d.deleted, r.GetSecrets())
	if d.remove != codes.OK {
		return nil, status.Error(d.remove, d.echo(r.GetSecrets()))
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// rig is a controller with a driver behind a real connection, an API server of paper, and
// everything that it says.
type rig struct {
	*Controller
	driver  *driver
	api     client.Client
	journal *Memory
	records []intent.Entry
	clock   *clocktesting.FakeClock
	key     provision.Key
	metrics *prometheus.Registry
	refuse  func(client.Object) error // of a read of the API server

	mu     sync.Mutex
	said   strings.Builder // log and events
	events []string        // events
}

func (r *rig) Event(_ runtime.Object, kind, reason, message string) {
	r.say(kind, reason, message)
	r.events = append(r.events, kind+" "+reason+" "+message)
}

func (r *rig) say(words ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintln(&r.said, words)
}

// recorder keeps all journal entries that were ever written.
type recorder struct {
	*Memory
	rig *rig
}

func (j recorder) Record(ctx context.Context, e intent.Entry) error {
	j.rig.records = append(j.rig.records, e)
	return j.Memory.Record(ctx, e)
}

func newRig(t *testing.T, edits ...func(*storagev1.StorageClass)) *rig {
	t.Helper()
	r := &rig{
		driver:  &driver{echo: func(s map[string]string) string { return fmt.Sprintf("cannot log in with %q, %s", s, s["password"]) }, capacity: 1 << 30},
		journal: NewMemory(), clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), metrics: prometheus.NewRegistry(),
		key: provision.Key{NamespacedName: types.NamespacedName{Namespace: "crew", Name: "logbook"}, UID: "u"},
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: driverName, Parameters: map[string]string{
		names.ParameterProvisionerSecretName: secretRef.Name, names.ParameterProvisionerSecretNamespace: secretRef.Namespace,
		names.OwnParameterDeletionSecretName: "delete", names.OwnParameterDeletionSecretNamespace: "vault",
	}}
	for _, edit := range edits {
		edit(class)
	}
	r.api = fake.NewClientBuilder().WithScheme(kube.NewScheme()).WithObjects(
		class,
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "crew", Name: "logbook", UID: "u", Annotations: map[string]string{names.AnnStorageProvisioner: driverName}},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("fast"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		},
		secret("create"), secret("delete"),
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if r.refuse != nil {
				o.SetName(key.Name)
				if err := r.refuse(o); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	measures := telemetry.NewMetrics(r.metrics, r.journal.Len)
	own := kube.NewOverlay(r.api, r.clock)
	own.Fed(&corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{})
	r.Controller = New(Config{
		Calls:  &csirpc.VolumeLocks{},
		Cached: own, Live: r.api, Writer: own.Recording(r.api), Journal: recorder{r.journal, r},
		CSI: serve(t, r.driver),
		Driver: provision.Driver{
			Name:       driverName,
			Plugin:     map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true},
			Controller: map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true},
		},
		Options: provision.Options{NamePrefix: "pvc", NameUUIDLength: -1}, Timeout: 10 * time.Second,
		InFlight: measures.InFlight,
		Settings: reconcile.Settings{
			Backoff: reconcile.Backoff{First: time.Second, Most: 5 * time.Minute}, Clock: r.clock, Events: r, Decided: measures.Decisions,
		},
	})
	return r
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: name},
		Data:       map[string][]byte{"password": []byte(marker), "pem": []byte(markerPEM)},
	}
}

// serve puts a real connection between, since its interceptors log.
func serve(t *testing.T, d *driver) csi.ControllerClient {
	t.Helper()
	socket := filepath.Join(testdriver.SocketDir(t), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterControllerServer(server, d)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: socket, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.Controller()
}

// settled is what a run decides on: it is gathered, and then read as the decision asks.
func (r *rig) settled(t *testing.T) provision.Snapshot {
	t.Helper()
	s, err := r.Gather(t.Context(), r.key)
	if err != nil {
		t.Fatal(err)
	}
	s, _, err = verdict.Settle(s, func(s provision.Snapshot) next { return r.Decide(s, r.clock.Now()) },
		func(s provision.Snapshot, refs []verdict.Ref) (provision.Snapshot, error) {
			return r.Read(t.Context(), s, refs)
		})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *rig) run(t *testing.T) time.Duration {
	t.Helper()
	log := funcr.New(func(prefix, args string) { r.say(prefix, args) }, funcr.Options{Verbosity: 10})
	result, err := r.Loop().Reconcile(logr.NewContext(t.Context(), log), r.key)
	if err != nil {
		t.Errorf("reconcile: %v", err)
		r.say(err.Error())
	}
	return result.RequeueAfter
}

// silent fails when a secret value has left the call.
func (r *rig) silent(t *testing.T) {
	t.Helper()
	metrics, err := r.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range metrics {
		r.say(family.String())
	}
	for _, e := range r.records {
		raw, err := proto.Marshal(e.Request)
		if err != nil {
			t.Fatal(err)
		}
		r.say(string(raw), fmt.Sprint(e.Secrets))
	}
	var volumes corev1.PersistentVolumeList
	if err := r.api.List(t.Context(), &volumes); err != nil {
		t.Fatal(err)
	}
	r.say(volumes.String())
	for _, form := range []string{marker, "aHVudGVyMi10aGUtbWFya2Vy", "MIIEvQIBADANBgkqhkiG9w0"} {
		if i := strings.Index(r.said.String(), form); i >= 0 {
			t.Errorf("a secret value got out: …%s…", r.said.String()[max(0, i-200):i])
		}
	}
}
