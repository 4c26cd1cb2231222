package snapshotmetadata

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/backupclient"
	"github.com/purser-csi/purser/test/rolestest"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "csi.example.com"
	audience   = "cbt.example.com"
	goodToken  = "the-token-that-must-not-be-logged"
)

// blockDriver answers as the test wants.
type blockDriver struct {
	scripted.Driver
	csi.UnimplementedSnapshotMetadataServer

	mu        sync.Mutex
	allocated []*csi.GetMetadataAllocatedRequest
	deltas    []*csi.GetMetadataDeltaRequest
	sent      int
	// Probe answers that the driver is not ready
	starting bool
	answer   func(send func(*csi.GetMetadataAllocatedResponse) error) error // nil for one block
}

func (d *blockDriver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.starting {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return &csi.ProbeResponse{}, nil
}

func (d *blockDriver) set(edit func(*blockDriver)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(d)
}

// asked returns the requests so far.
func (d *blockDriver) asked() ([]*csi.GetMetadataAllocatedRequest, []*csi.GetMetadataDeltaRequest) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.allocated), slices.Clone(d.deltas)
}

// calls returns the number of calls, and of messages sent.
func (d *blockDriver) calls() (calls, sent int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.allocated) + len(d.deltas), d.sent
}

func (d *blockDriver) GetMetadataAllocated(
	r *csi.GetMetadataAllocatedRequest, to csi.SnapshotMetadata_GetMetadataAllocatedServer,
) error {
	d.set(func(d *blockDriver) { d.allocated = append(d.allocated, r) })
	d.mu.Lock()
	answer := d.answer
	d.mu.Unlock()
	send := func(m *csi.GetMetadataAllocatedResponse) error {
		err := to.Send(m)
		if err == nil {
			d.set(func(d *blockDriver) { d.sent++ })
		}
		return err
	}
	if answer == nil {
		return send(blocksOf(0, 4096))
	}
	return answer(send)
}

func (d *blockDriver) GetMetadataDelta(
	r *csi.GetMetadataDeltaRequest, to csi.SnapshotMetadata_GetMetadataDeltaServer,
) error {
	d.set(func(d *blockDriver) { d.deltas = append(d.deltas, r) })
	return to.Send(&csi.GetMetadataDeltaResponse{
		BlockMetadataType: csi.BlockMetadataType_FIXED_LENGTH, VolumeCapacityBytes: 1 << 30,
		BlockMetadata: []*csi.BlockMetadata{{ByteOffset: 8192, SizeBytes: 4096}, {ByteOffset: 16384, SizeBytes: 4096}},
	})
}

// blocksOf returns a message with pairs of offset and size.
func blocksOf(pairs ...int64) *csi.GetMetadataAllocatedResponse {
	m := &csi.GetMetadataAllocatedResponse{
		BlockMetadataType: csi.BlockMetadataType_VARIABLE_LENGTH, VolumeCapacityBytes: 1 << 40,
	}
	for i := 0; i < len(pairs); i += 2 {
		m.BlockMetadata = append(m.BlockMetadata, &csi.BlockMetadata{ByteOffset: pairs[i], SizeBytes: pairs[i+1]})
	}
	return m
}

// reviews accepts goodToken for the audience, and allows all namespaces but bank.
type reviews struct {
	mu     sync.Mutex
	tokens int
	fails  error // of the API server
	panics bool
}

func (r *reviews) Token(_ context.Context, token, of string) (authenticationv1.TokenReviewStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tokens++
	if r.panics {
		panic("nil map")
	}
	if token != goodToken || of != audience {
		return authenticationv1.TokenReviewStatus{}, r.fails
	}
	return authenticationv1.TokenReviewStatus{
		Authenticated: true, Audiences: []string{of}, User: authenticationv1.UserInfo{Username: "agent"},
	}, r.fails
}

func (*reviews) Access(
	_ context.Context, spec authorizationv1.SubjectAccessReviewSpec,
) (authorizationv1.SubjectAccessReviewStatus, error) {
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: spec.ResourceAttributes.Namespace != "bank", Reason: "of the test",
	}, nil
}

func (r *reviews) set(edit func(*reviews)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	edit(r)
}

// ended is the end of a request.
type ended struct {
	method string
	code   codes.Code
}

// rig is a service with a driver and a client.
type rig struct {
	*testing.T

	driver  *blockDriver
	reviews *reviews
	log     *rolestest.Log
	service *Service
	address string
	conn    *grpc.ClientConn
	ended   chan ended
	stop    func()
}

// newRig returns a rig that has started. edit may change the configuration.
func newRig(t *testing.T, d *blockDriver, edit func(*Config)) *rig {
	t.Helper()
	return newRigBehind(t, d, edit, func(listener net.Listener) net.Listener { return listener })
}

// newRigBehind is newRig with another listener around that of the service.
func newRigBehind(t *testing.T, d *blockDriver, edit func(*Config), around func(net.Listener) net.Listener) *rig {
	t.Helper()
	r := &rig{T: t, driver: d, reviews: &reviews{}, log: &rolestest.Log{}, ended: make(chan ended, 100)}
	d.Name = driverName
	dir := t.TempDir()
	chain := rolestest.WriteCertificate(t, dir)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Conn: serveDriver(t, d), Reviews: r.reviews, Objects: fakeObjects(),
		TLS:     &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}},
		Longest: time.Minute, Timeout: 10 * time.Second,
		Ended: func(_, method string, code codes.Code, _ time.Duration) { r.ended <- ended{method, code} },
	}
	if edit != nil {
		edit(&cfg)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	r.service = New(rolestest.WithLogger(t, r.log), cfg)
	r.stop = rolestest.InBackground(t, func(ctx context.Context) error { return r.service.Run(ctx, around(listener)) })
	r.conn = rolestest.Connect(t, listener.Addr(), chain, tls.VersionTLS13)
	return r
}

// ready waits until requests are served.
func (r *rig) ready() *rig {
	r.Helper()
	rolestest.Eventually(r.T, "the service is ready", func() error { return r.service.Check(r.Context()) })
	return r
}

// able are the capabilities of a driver with the service.
var able = []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_SNAPSHOT_METADATA_SERVICE}

func newDriver() *blockDriver { return &blockDriver{Driver: scripted.Driver{Plugin: able}} }

func serveDriver(t *testing.T, d *blockDriver) *csirpc.Conn {
	t.Helper()
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: scripted.Start(t, d), Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// fakeObjects are two snapshots of the driver in shop, one of another driver, and one that is not
// ready.
func fakeObjects() client.Client {
	objects := []client.Object{
		&kube.SnapshotMetadataService{
			ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: kube.SnapshotMetadataServiceSpec{Audience: audience},
		},
		&snapshotv1.VolumeSnapshotClass{
			ObjectMeta: metav1.ObjectMeta{Name: "class"}, Driver: driverName,
			DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Parameters: map[string]string{
				names.ParameterSnapshotterSecretName: "key", names.ParameterSnapshotterSecretNamespace: "vault",
			},
		},
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "key"},
			Data:       map[string][]byte{"password": []byte("hunter2-hunter2")},
		},
	}
	for _, s := range []struct {
		namespace, name, driver string
		isReady                 bool
	}{
		{"shop", "monday", driverName, true},
		{"shop", "tuesday", driverName, true},
		{"shop", "foreign", "other", true},
		{"shop", "early", driverName, false},
		{"bank", "vault", driverName, true},
	} {
		objects = append(objects, &snapshotv1.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name},
			Spec:       snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: new("class")},
			Status: &snapshotv1.VolumeSnapshotStatus{
				ReadyToUse: new(s.isReady), BoundVolumeSnapshotContentName: new("content-" + s.name),
			},
		}, &snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: "content-" + s.name},
			Spec: snapshotv1.VolumeSnapshotContentSpec{
				Driver: s.driver, VolumeSnapshotRef: corev1.ObjectReference{Namespace: s.namespace, Name: s.name},
			},
			Status: &snapshotv1.VolumeSnapshotContentStatus{
				ReadyToUse: new(true), SnapshotHandle: new("handle-" + s.name),
			},
		})
	}
	return fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(objects...).Build()
}

// request is one that is answered.
func request(edit func(*backupclient.Request)) backupclient.Request {
	r := backupclient.Request{Token: goodToken, Namespace: "shop", Snapshot: "monday"}
	if edit != nil {
		edit(&r)
	}
	return r
}

var errEnough = errors.New("enough")

func serviceObject() *kube.SnapshotMetadataService {
	return &kube.SnapshotMetadataService{ObjectMeta: metav1.ObjectMeta{Name: driverName}}
}
