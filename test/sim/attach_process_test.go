package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/attachdetach"
	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/attacher"
	publishing "github.com/purser-csi/purser/internal/attacher/rules"
	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	controllersrole "github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/registry"
	"github.com/purser-csi/purser/test/sim/csidriver"
	"github.com/purser-csi/purser/test/sim/view"
)

// The roles that attach. attachPlane is both in one process.
const (
	attachDetach role = "attachdetach"
	csiAttacher  role = "csi-attacher"
	attachPlane  role = "attachdetach with csi-attacher"
)

func (r role) attaches() bool { return r == attachDetach || r == csiAttacher || r == attachPlane }

// forceAfter is how long a volume in use stays attached to an unhealthy node.
const forceAfter = 30 * time.Second

// prepareAttaching gives each of the two controllers a cache of its own, with the fields that the
// roles keep.
func (p *process) prepareAttaching() {
	if p.role == attachPlane {
		p.second = view.New(p.world.server, p.world.schedule.views...)
		p.second.Offset = p.view.Offset + 6*time.Microsecond
		p.attachments = handoff.NewAttachments()
	}
	if p.role != attachDetach {
		p.view.Transform, p.view.TrimsPods = trimForAttacher, true
	}
	if p.role != csiAttacher {
		v := p.attachDetachView()
		v.Transform, v.TrimsPods = registry.Trim(attachDetachEntry()), true
	}
}

func attachDetachEntry() []registry.Controller {
	return slices.DeleteFunc(controllersrole.All(nil), func(c registry.Controller) bool { return c.Name != controllersrole.NameAttachDetach })
}

// attachDetachView is the cache of the attach-detach controller.
func (p *process) attachDetachView() *view.View {
	if p.second != nil {
		return p.second
	}
	return p.view
}

func trimForAttacher(in any) (any, error) {
	if o, ok := in.(client.Object); ok {
		o.SetManagedFields(nil)
	}
	return in, nil
}

// runAttaching wires the controllers as internal/roles does.
func (p *process) runAttaching() {
	if p.role != csiAttacher {
		p.runAttachDetach()
	}
	if p.role != attachDetach {
		p.runAttacher()
	}
}

// attachClient returns the client of a role, changed by the mutant.
func (p *process) attachClient(r role, seen *view.View) (client.Client, client.Reader) {
	m := p.world.mutant
	api, cached := client.Client(gatedClient{Client: p.world.server.Client(), process: p}), client.Reader(seen)
	if m.of != "" && m.of != r {
		return api, cached
	}
	if m.client != nil {
		api = m.client(api, seen)
	}
	if m.cached != nil {
		cached = m.cached(cached)
	}
	return api, cached
}

func (p *process) attachManager(r role, seen *view.View, api client.Client) *fakeManager {
	if m := p.world.mutant; m.of == r {
		return m.manager(seen, api)
	}
	return mutant{}.manager(seen, api)
}

// ownWrites returns the overlay over the cache of a role and the client whose writes it has, changed by
// the mutant.
func (p *process) ownWrites(r role, cached client.Reader, api client.Client) (*kube.Overlay, client.Client) {
	own := kube.NewOverlay(cached, clock.RealClock{})
	writer := own.Recording(api)
	if m := p.world.mutant; m.writer != nil && m.of == r {
		writer = m.writer(writer, api, own)
	}
	return own, writer
}

func (p *process) runAttachDetach() {
	seen := p.attachDetachView()
	api, cached := p.attachClient(attachDetach, seen)
	live := client.Reader(api)
	if m := p.world.mutant; m.live != nil {
		live = m.live(live, cached)
	}
	rules := attachment.Rules{ForceAfter: forceAfter, AuditEvery: never}
	if m := p.world.mutant; m.forceAfter > 0 {
		rules.ForceAfter = m.forceAfter
	}
	mgr := p.attachManager(attachDetach, seen, api)
	own, writer := p.ownWrites(attachDetach, cached, api)
	c := attachdetach.New(attachdetach.Config{
		Settings: p.settings(4), Cached: own, Live: live, Writer: writer, Rules: rules, InProcess: p.attachments,
	})
	if err := c.AddTo(p.ctx, mgr); err != nil {
		panic(err)
	}
	go func() { _ = seen.Start(p.ctx) }()
	p.begin(mgr)
}

func (p *process) runAttacher() {
	api, cached := p.attachClient(csiAttacher, p.view)
	driver := csi.ControllerClient(gatedDriver{process: p})
	if m := p.world.mutant; m.driver != nil {
		driver = m.driver(driver, nil)
	}
	rules := publishing.Driver{Name: driverName, Publishes: true}
	mgr := p.attachManager(csiAttacher, p.view, api)
	own, writer := p.ownWrites(csiAttacher, cached, api)
	c := attacher.New(attacher.Config{
		Settings: p.settings(4), Cached: own, Live: api, Writer: writer, CSI: driver, Calls: &csirpc.VolumeLocks{}, Driver: rules,
		Timeout: callTimeout, InFlight: measures.InFlight, InProcess: p.attachments,
	})
	if err := c.AddTo(p.ctx, mgr); err != nil {
		panic(err)
	}
	go func() { _ = p.view.Start(p.ctx) }()
	p.begin(mgr)
}

func (d gatedDriver) ControllerPublishVolume(
	ctx context.Context, in *csi.ControllerPublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerPublishVolumeResponse, error) {
	w, at := d.process.world, csidriver.Publication{Volume: in.GetVolumeId(), Node: in.GetNodeId()}
	err := d.process.do(op{text: fmt.Sprintf("ControllerPublishVolume %s %s", at.Volume, at.Node), call: true}, func(n int) error {
		if w.schedule.slowAt == n && w.schedule.rivalAt > 0 { // docs/limitations.md: a call of a previous leader cannot be taken back
			return status.Error(codes.Unavailable, "it never arrives")
		}
		return w.driver.Publish(ctx, at, w.schedule.faultOf(n), func(before []csidriver.Publication) { w.attaching.publishing(at, before) })
	})
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"device": at.Volume}}, asCall(err)
}

func (d gatedDriver) ControllerUnpublishVolume(
	ctx context.Context, in *csi.ControllerUnpublishVolumeRequest, _ ...grpc.CallOption,
) (*csi.ControllerUnpublishVolumeResponse, error) {
	w, at := d.process.world, csidriver.Publication{Volume: in.GetVolumeId(), Node: in.GetNodeId()}
	err := d.process.do(op{text: fmt.Sprintf("ControllerUnpublishVolume %s %s", at.Volume, at.Node), call: true}, func(n int) error {
		return w.driver.Unpublish(ctx, at, w.schedule.faultOf(n), func([]csidriver.Publication) { w.attaching.unpublishing(at) })
	})
	return &csi.ControllerUnpublishVolumeResponse{}, asCall(err)
}

// attachKinds are what the two watch.
var attachKinds = []client.Object{
	&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.VolumeAttachment{}, &storagev1.CSINode{},
}
