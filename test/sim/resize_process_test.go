package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/resize"

	"github.com/purser-csi/purser/internal/csispec"
	resizing "github.com/purser-csi/purser/internal/resize/rules"
	"github.com/purser-csi/purser/test/sim/apiserver"
	"github.com/purser-csi/purser/test/sim/csidriver"
)

// csiResizer is the role that expands.
const csiResizer role = "csi-resizer"

// expanding checks the invariants of sizes at each call and write. It is safe for concurrent use.
type expanding struct {
	world  *world
	most   int64 // that the driver has for a volume
	onNode bool  // the node finishes an expansion

	mu      sync.Mutex
	pending map[string]int64 // size whose outcome the last caller does not know, by volume
	reached map[string]int64 // largest size that was answered with success, by volume
}

// begin records a call with a size. No other size of the volume may be uncertain. Calls of a
// previous leader cannot be cancelled, so they do not count.
func (e *expanding) begin(p *process, call csidriver.Expansion) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.world.processes.hasNewer(p) || call.Bytes <= e.reached[call.Volume] {
		return
	}
	if other := e.pending[call.Volume]; other != 0 && other != call.Bytes {
		e.world.violate("RZ-D8: %d bytes are asked for volume %s while the outcome of %d is unknown", call.Bytes, call.Volume, other)
	}
	e.pending[call.Volume] = call.Bytes
}

// end notes the answer that the caller got. A final one counts whichever
// process gets it.
func (e *expanding) end(call csidriver.Expansion, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.reached[call.Volume] = max(e.reached[call.Volume], call.Bytes)
	}
	final, size := !csispec.IsUncertainOrExhausted(status.Code(err)), e.pending[call.Volume]
	if err == nil && call.Bytes >= size || final && call.Bytes == size {
		delete(e.pending, call.Volume)
	}
}

// noMoreThanThereIs is checked after each write.
func (e *expanding) noMoreThanThereIs() {
	for _, pv := range apiserver.Objects(e.world.server, &corev1.PersistentVolume{}) {
		has := e.world.driver.Size(pv.Spec.CSI.VolumeHandle)
		if says := pv.Spec.Capacity[corev1.ResourceStorage]; says.Value() > has {
			e.world.violate("RZ-X5: PersistentVolume %s says %s, and the volume has %d bytes", pv.Name, says.String(), has)
		}
	}
	for _, claim := range apiserver.Objects(e.world.server, &corev1.PersistentVolumeClaim{}) {
		has := e.world.driver.Size(claim.Spec.VolumeName)
		if says := claim.Status.Capacity[corev1.ResourceStorage]; says.Value() > has {
			e.world.violate("RZ-X7: claim %s says %s, and the volume has %d bytes", claim.Name, says.String(), has)
		}
	}
}

// sizedClient checks the sizes and the classes after each write, also after one that arrives late.
type sizedClient struct {
	client.Client
	sizes *expanding
}

func (c sizedClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	defer c.sizes.noMoreThanThereIs()
	defer c.sizes.world.modifying.onlyWhatWasAccepted()
	return c.Client.Patch(ctx, o, p, opts...)
}

func (c sizedClient) Status() client.SubResourceWriter {
	return sizedStatus{c.Client.Status(), c.sizes}
}

type sizedStatus struct {
	client.SubResourceWriter
	sizes *expanding
}

func (s sizedStatus) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
	defer s.sizes.noMoreThanThereIs()
	defer s.sizes.world.modifying.onlyWhatWasAccepted()
	return s.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// runResizer builds both controllers as internal/roles does.
func (p *process) runResizer() {
	m, w := p.world.mutant, p.world
	api := client.Client(gatedClient{Client: sizedClient{w.server.Client(), w.expanding}, process: p})
	if m.client != nil {
		api = m.client(api, p.view)
	}
	cached := client.Reader(p.view)
	if m.cached != nil {
		cached = m.cached(cached)
	}
	driver := csi.ControllerClient(gatedDriver{process: p})
	if m.driver != nil {
		driver = m.driver(driver, nil)
	}
	overlay, calls := kube.NewOverlay(cached, p.world.clock), &csirpc.VolumeLocks{}
	store := resize.Store{Cached: overlay, Live: api, Writer: overlay.Recording(api)}
	if m.forgets {
		store.Writer = api
	}
	c := resize.New(resize.Config{
		Settings: p.settings(4), Store: store, CSI: driver, Calls: calls,
		Driver:  resizing.Driver{Name: driverName, Controller: true},
		Timeout: callTimeout, AnnotateFS: true, InFlight: measures.InFlight,
	})
	if m.strangers {
		calls = &csirpc.VolumeLocks{}
	}
	classes := resize.NewAttributes(resize.AttributesConfig{
		Settings: p.settings(4), Store: store, CSI: driver, Calls: calls,
		Driver:  resizing.AttributesDriver{Name: driverName, Modifies: true},
		Timeout: callTimeout, InFlight: measures.InFlight,
	})
	mgr := m.manager(p.view, api)
	if err := errors.Join(c.AddTo(p.ctx, mgr), classes.AddTo(p.ctx, mgr)); err != nil {
		panic(err)
	}
	go func() { _ = p.view.Start(p.ctx) }()
	p.begin(mgr)
}

func trimForResizer(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	return in, nil
}

func (d gatedDriver) ControllerExpandVolume(
	ctx context.Context, in *csi.ControllerExpandVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerExpandVolumeResponse, error) {
	w := d.process.world
	call := csidriver.Expansion{Volume: in.GetVolumeId(), Bytes: in.GetCapacityRange().GetRequiredBytes()}
	defer d.process.occupy(call.Volume, "ControllerExpandVolume")()
	err := d.process.do(op{text: fmt.Sprintf("ControllerExpandVolume %s %d", call.Volume, call.Bytes), call: true}, func(n int) error {
		w.everAsked(call)
		w.expanding.begin(d.process, call)
		return w.driver.Expand(ctx, call, w.schedule.faultOf(n), func() error {
			if call.Bytes > w.expanding.most {
				return status.Error(codes.OutOfRange, "the pool has less")
			}
			return nil
		})
	})
	if d.process.isDead() {
		err = errDead
	}
	w.expanding.end(call, asCall(err))
	return &csi.ControllerExpandVolumeResponse{
		CapacityBytes: max(call.Bytes, w.driver.Size(call.Volume)), NodeExpansionRequired: w.expanding.onNode,
	}, asCall(err)
}

// startNode runs a model of the kubelet: it finishes an expansion (RZ-K2).
func startNode(w *world) {
	w.modifying = &modifying{world: w, unknown: map[string]string{}}
	w.expanding = &expanding{world: w, most: 8 << 30, pending: map[string]int64{}, reached: map[string]int64{}}
	go func() {
		for w.ctx.Err() == nil {
			time.Sleep(97 * time.Millisecond)
			w.expanding.finishOnNode()
		}
	}()
}

func (e *expanding) finishOnNode() {
	api := e.world.server.Client()
	for _, claim := range apiserver.Objects(e.world.server, &corev1.PersistentVolumeClaim{}) {
		if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimNodeResizePending {
			continue
		}
		pv := &corev1.PersistentVolume{}
		if api.Get(e.world.ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, pv) != nil {
			continue
		}
		claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: pv.Spec.Capacity[corev1.ResourceStorage]}
		claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = nil, nil
		if api.Status().Update(e.world.ctx, claim) == nil {
			e.world.log("the node finishes claim %s", claim.Name)
		}
	}
}
