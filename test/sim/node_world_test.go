package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/journal"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/names"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// nodeMutant breaks the instances on purpose.
type nodeMutant struct {
	name    string
	client  func(client.Client) client.Client // of the requests that arrive
	options func(*provision.Options)
	isHere  func(*corev1.PersistentVolume) bool
	journal func(node string) string // name of the journal
	ownOnly bool                     // a handle is looked for among the volumes of the node only
}

// nodeWorld is a cluster with an instance of the provisioner on each node, each with a backend of its
// own, and claims with immediate binding.
type nodeWorld struct {
	ctx      context.Context
	server   *apiserver.Server
	schedule nodeSchedule
	mutant   nodeMutant
	delay    time.Duration // --node-deployment-base-delay
	backends map[string]*csidriver.Driver

	mu         sync.Mutex
	ops        int
	failed     string          // the call that had the fault of the schedule, until it is repeated
	calls      []int           // operations that are calls
	creates    map[string]int  // by node and volume
	moved      map[string]bool // node and volume of claims that were moved to another node
	deletes    int
	violations []string
	trace      []string
}

func (w *nodeWorld) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *nodeWorld) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// instance is one incarnation of the provisioner on a node.
type instance struct {
	client.Client
	csi.ControllerClient
	world  *nodeWorld
	node   string
	number int
	cancel context.CancelFunc
	dead   atomic.Bool
}

func (i *instance) die() {
	if i.dead.Swap(true) {
		return
	}
	i.world.log("the instance on %s is killed", i.node)
	i.cancel()
	if i.world.schedule.moved {
		go i.world.moveFrom(i.node)
	}
	go func() {
		time.Sleep(7 * time.Second)
		i.world.start(i.node, i.number+1)
	}()
}

// do is one operation: a write, or a call to the driver.
func (i *instance) do(text string, isCall bool, work func(csidriver.Fault) error) error {
	w := i.world
	time.Sleep(400*time.Microsecond + time.Duration(len(i.node)*7+int(i.node[len(i.node)-1])%5)*11*time.Microsecond)
	w.mu.Lock()
	w.ops++
	n := w.ops
	if isCall {
		w.calls = append(w.calls, n)
	}
	w.mu.Unlock()
	if n == w.schedule.crashAt && w.schedule.before {
		i.die()
	}
	if i.dead.Load() {
		return errDead
	}
	fault := w.faultOf(n, text)
	err := work(fault)
	w.log("%3d %s: %s: %s", n, i.node, text, said(err))
	if n == w.schedule.crashAt {
		i.die()
		return errDead
	}
	return err
}

func (i *instance) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	return i.do(describe("create", o).text, false, func(csidriver.Fault) error { return i.Client.Create(ctx, o, opts...) })
}

func (i *instance) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	return i.do(describe("update", o).text, false, func(csidriver.Fault) error { return i.Client.Update(ctx, o, opts...) })
}

func (i *instance) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	return i.do(describe("patch", o).text, false, func(csidriver.Fault) error { return i.Client.Patch(ctx, o, p, opts...) })
}

func (i *instance) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	return i.do(describe("delete", o).text, false, func(csidriver.Fault) error { return i.Client.Delete(ctx, o, opts...) })
}

func (i *instance) CreateVolume(ctx context.Context, r *csi.CreateVolumeRequest, _ ...grpc.CallOption) (out *csi.CreateVolumeResponse, err error) {
	i.world.beforeCreate(i.node, r.GetName())
	err = i.do("CreateVolume "+r.GetName(), true, func(f csidriver.Fault) (err error) {
		out, err = i.world.backends[i.node].Create(ctx, r, f)
		return err
	})
	return out, asCall(err)
}

func (i *instance) DeleteVolume(ctx context.Context, r *csi.DeleteVolumeRequest, _ ...grpc.CallOption) (*csi.DeleteVolumeResponse, error) {
	i.world.mu.Lock()
	i.world.deletes++
	i.world.mu.Unlock()
	err := i.do("DeleteVolume "+r.GetVolumeId(), true, func(f csidriver.Fault) error {
		return i.world.backends[i.node].Delete(ctx, r.GetVolumeId(), f)
	})
	return &csi.DeleteVolumeResponse{}, asCall(err)
}

func (i *instance) GetCapacity(context.Context, *csi.GetCapacityRequest, ...grpc.CallOption) (*csi.GetCapacityResponse, error) {
	return nil, status.Error(codes.Unimplemented, "no capacity")
}

// beforeCreate checks that the first call for a volume on a node comes after the claim names the node
// (H-27). A claim that was moved to another node had named this one: an instance that was killed
// between its journal entry and the call repeats the request, since the call may have been sent.
func (w *nodeWorld) beforeCreate(node, volume string) {
	w.mu.Lock()
	w.creates[node+" "+volume]++
	first := w.creates[node+" "+volume] == 1 && !w.moved[node+" "+volume]
	w.mu.Unlock()
	for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
		if got := claim.Annotations[names.AnnSelectedNode]; first && "pvc-"+string(claim.UID) == volume && got != node {
			w.violate("H-27: CreateVolume of %s on %s, and the claim is for %q", volume, node, got)
		}
	}
}

// start runs the instance of a node, as internal/roles/provisioner does.
func (w *nodeWorld) start(node string, number int) {
	ctx, cancel := context.WithCancel(w.ctx)
	if w.ctx.Err() != nil {
		cancel()
		return
	}
	i := &instance{Client: w.server.Client(), world: w, node: node, number: number, cancel: cancel}
	own := provision.NodeOptions{
		Name: node, Segments: map[string]string{csidriver.KeyNode: node}, Immediate: true, BaseDelay: w.delay, MaxDelay: 3 * w.delay,
	}
	if w.schedule.shared {
		own.Segments = nil
	}
	has := func(pv *corev1.PersistentVolume) bool { return provision.IsOnNode(pv, own, driverName) }
	if w.mutant.isHere != nil {
		has = w.mutant.isHere
	}
	v := view.New(w.server)
	v.Transform, v.Offset = kube.TrimForNode(has, kube.Trim), time.Duration(node[len(node)-1]%7)*13*time.Microsecond
	if w.mutant.client != nil {
		i.Client = w.mutant.client(i.Client)
	}
	api := client.Client(i)
	name := "journal-" + node
	if w.mutant.journal != nil {
		name = w.mutant.journal(node)
	}
	record := journal.New(journal.Config{
		Live: api, Writer: api, Namespace: namespace, Name: name, Holder: fmt.Sprint(node, number), CallTimeout: callTimeout,
	})
	options := provision.Options{
		NamePrefix: "pvc", NameUUIDLength: -1, Identity: "1-2-" + driverName + "-" + node, Topology: topology.Rules{Immediate: true}, Node: own,
	}
	if w.mutant.options != nil {
		w.mutant.options(&options)
	}
	mgr := &fakeManager{view: v, client: api}
	parts := nodeParts{
		cached: kube.SomeVolumes(v, kube.HasSource), live: kube.SomeVolumes(api, has), writer: api, record: record, options: options,
	}
	if w.schedule.shared && !w.mutant.ownOnly {
		parts.all = api
	}
	w.wire(ctx, mgr, i, parts)
	go func() { _ = v.Start(ctx) }()
	go func() { _ = record.Start(ctx) }()
	for _, r := range mgr.runnables {
		go func() { _ = r.Start(ctx) }()
	}
}

type nodeParts struct {
	cached, live, all client.Reader
	writer            client.Client
	record            *journal.Journal
	options           provision.Options
}

func (w *nodeWorld) wire(ctx context.Context, mgr *fakeManager, driver csi.ControllerClient, have nodeParts) {
	locks := &csirpc.VolumeLocks{}
	own := kube.NewOverlay(have.cached, clock.RealClock{})
	have.writer = own.Recording(have.writer)
	rpcs := map[csi.ControllerServiceCapability_RPC_Type]bool{csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME: true}
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: own, Live: have.live, AllVolumes: have.all, Writer: have.writer, CSI: driver, Calls: locks, Journal: have.record,
		Driver: reclaim.Driver{Name: driverName, Controller: rpcs}, Timeout: callTimeout, Settings: settings(4), InFlight: measures.InFlight,
	})
	claims := provisioning.New(provisioning.Config{
		Cached: own, Live: have.live, Writer: have.writer, Journal: have.record, CSI: driver, Calls: locks,
		Driver:  provision.Driver{Name: driverName, Plugin: plugin, Controller: rpcs, HasTopology: !w.schedule.shared},
		Options: have.options, Sharing: reclaims.Sharing, Timeout: callTimeout, Settings: settings(4), InFlight: measures.InFlight,
	})
	ordered := own.Before(mgr)
	if err := errors.Join(claims.AddTo(ctx, ordered), reclaims.AddTo(ctx, ordered)); err != nil {
		panic(err)
	}
}

var simNodes = []string{"n1", "n2", "n3"}

const simClaims = 4

// play creates the claims, deletes the first two after a while, and lets all come to rest.
func (w *nodeWorld) play() {
	api := w.server.Client()
	_ = api.Create(w.ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: driverName, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
		ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
	})
	for _, node := range simNodes {
		w.backends[node] = w.backendOf(node)
		w.start(node, 1)
	}
	go w.bind(api)
	time.Sleep(time.Second)
	for i := range simClaims {
		_ = api.Create(w.ctx, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: fmt.Sprint("c", i), Annotations: map[string]string{names.AnnStorageProvisioner: driverName},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				StorageClassName: new("local"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		})
	}
	time.Sleep(2*w.delay + 3*time.Second)
	for i := range simClaims / 2 {
		_ = api.Delete(w.ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("c", i)}})
	}
	time.Sleep(2 * time.Hour)
}

// bind is as much of the PV controller, and of the protection of claims and volumes, as is needed.
func (w *nodeWorld) bind(api client.Client) {
	for ; w.ctx.Err() == nil; time.Sleep(1013 * time.Millisecond) {
		claims := map[string]*corev1.PersistentVolumeClaim{}
		for _, claim := range apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{}) {
			if claim.DeletionTimestamp != nil {
				claim.Finalizers = nil
				_ = api.Update(w.ctx, claim)
				continue
			}
			claims[string(claim.UID)] = claim
		}
		for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
			claim, phase := claims[string(pv.Spec.ClaimRef.UID)], corev1.VolumeBound
			switch {
			case claim == nil:
				phase = corev1.VolumeReleased
			case claim.Spec.VolumeName == "":
				claim.Spec.VolumeName = pv.Name
				_ = api.Update(w.ctx, claim)
			}
			if pv.DeletionTimestamp != nil {
				pv.Finalizers = slices.DeleteFunc(pv.Finalizers, func(f string) bool { return f == names.FinalizerPVProtection })
				_ = api.Update(w.ctx, pv)
				continue
			}
			if pv.Status.Phase != phase {
				pv.Status.Phase = phase
				_ = api.Status().Update(w.ctx, pv)
			}
		}
	}
}

// check compares the backends with the API server when no process has work left.
func (w *nodeWorld) check() {
	want := map[string]string{} // the node of each volume
	for _, pv := range apiserver.Objects(w.server, &corev1.PersistentVolume{}) {
		want[pv.Name] = ""
		if w.schedule.shared {
			want[pv.Name] = simNodes[0]
		}
		if pv.Spec.NodeAffinity != nil {
			want[pv.Name] = pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]
		}
	}
	claims := apiserver.Objects(w.server, &corev1.PersistentVolumeClaim{})
	for _, claim := range claims {
		if claim.Spec.VolumeName == "" || want["pvc-"+string(claim.UID)] == "" {
			w.violate("claim %s has no volume", claim.Name)
		}
	}
	if len(want) != len(claims) {
		w.violate("%d PersistentVolumes for %d claims", len(want), len(claims))
	}
	have := map[string]string{}
	for _, node := range simNodes {
		if w.schedule.shared && node != simNodes[0] {
			break
		}
		for _, v := range w.backends[node].Volumes() {
			have[v.Name] += node
		}
	}
	if !maps.Equal(want, have) {
		w.violate("volumes on the nodes: %v, PersistentVolumes: %v", have, want)
	}
	if w.schedule != (nodeSchedule{shared: w.schedule.shared}) {
		return
	}
	calls := 0
	for _, n := range w.creates {
		calls += n
	}
	if calls != simClaims || w.deletes != simClaims/2 {
		w.violate("%d CreateVolume and %d DeleteVolume, want %d and %d", calls, w.deletes, simClaims, simClaims/2)
	}
}

func runNodes(t *testing.T, delay time.Duration, s nodeSchedule, m nodeMutant) *nodeWorld {
	t.Helper()
	w := &nodeWorld{
		server: apiserver.New(), schedule: s, mutant: m, delay: delay, backends: map[string]*csidriver.Driver{}, creates: map[string]int{}, moved: map[string]bool{},
	}
	synctest.Test(t, func(t *testing.T) {
		var cancel context.CancelFunc
		w.ctx, cancel = context.WithCancel(t.Context())
		w.play()
		w.check()
		cancel()
		time.Sleep(time.Hour) // calls and timers end
	})
	w.calls = slices.Clone(w.calls)
	return w
}
