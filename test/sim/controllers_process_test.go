package sim

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/purser-csi/purser/internal/binder"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/protection"
	provisioning "github.com/purser-csi/purser/internal/provision"
	"github.com/purser-csi/purser/test/sim/view"
)

// prepare creates the cache of the controllers, which keeps other fields than that of a
// provisioner.
func (p *process) prepare() {
	switch {
	case p.role == provisioner:
		return
	case p.role == csiResizer || p.role == growing:
		p.view.Transform = trimForResizer
		return
	case p.role == publisher:
		p.second = view.New(p.world.server, p.world.schedule.views...)
		p.second.Transform, p.second.Offset = trimForAttacher, p.view.Offset+6*time.Microsecond
		return
	case p.role.attaches():
		p.prepareAttaching()
		return
	}
	p.second = view.New(p.world.server, p.world.schedule.views...)
	p.second.Transform = kube.TrimTo(kube.PairFields)
	p.second.Offset = p.view.Offset + 6*time.Microsecond
	if p.role == plane {
		p.queue = handoff.New()
	}
}

func (p *process) views() []*view.View {
	if p.second == nil {
		return []*view.View{p.view}
	}
	return []*view.View{p.view, p.second}
}

func (p *process) heal() {
	for _, v := range p.views() {
		v.Heal()
	}
}

func (p *process) breakViews() {
	for _, v := range p.views() {
		v.Break()
	}
}

// attend returns the hand-off queue of the controllers in the same process.
func (p *process) attend(mgr manager.Manager) provisioning.HandedOver {
	if p.queue == nil {
		return nil
	}
	if err := mgr.Add(handoff.Registration{Queue: p.queue, Driver: driverName}); err != nil {
		panic(err)
	}
	return p.queue
}

// never is the interval of periodic audits: one within a run would hide a lost enqueue.
const never = 1000 * time.Hour

// runControllers builds the controllers as internal/roles does.
func (p *process) runControllers() {
	m := p.world.mutant
	api := client.Client(gatedClient{Client: p.world.server.Client(), process: p})
	if m.client != nil {
		api = m.client(api, p.second)
	}
	live, cached := client.Reader(api), client.Reader(p.second)
	if m.live != nil {
		live = m.live(live, cached)
	}
	if m.cached != nil {
		cached = m.cached(cached)
	}
	own := kube.NewOverlay(cached, p.world.clock)
	mgr := m.manager(p.second, api)
	binding := binder.Config{
		Live: live, Writer: api, Settings: p.settings(4), AuditEvery: never,
	}
	binding.Pods = func(claim *corev1.PersistentVolumeClaim) ([]string, error) {
		return protection.ClaimReferrers(p.ctx, cached, claim)
	}
	protecting := protection.Config{
		Cached: own, Live: live, Writer: own.Recording(api), Settings: p.settings(2),
	}
	if p.queue != nil {
		binding.HandOver, protecting.ColocatedDrivers = p.queue, p.queue.Drivers
	}
	err := errors.Join(protection.NewClaims(protecting).AddTo(p.ctx, mgr), protection.NewVolumes(protecting).AddTo(p.ctx, mgr),
		protection.NewUnused(protecting).AddTo(p.ctx, mgr))
	for range 1 + m.moreBinders {
		b := binder.New(binding)
		if p.queue != nil {
			p.queue.OnChange(b.Recheck)
		}
		err = errors.Join(err, b.AddTo(p.ctx, mgr))
	}
	if err != nil {
		panic(err)
	}
	go func() { _ = p.second.Start(p.ctx) }()
	p.begin(mgr)
}

// manager returns a manager whose informer events are changed by the mutant.
func (m mutant) manager(seen *view.View, api client.Client) *fakeManager {
	mgr := &fakeManager{view: seen, client: api}
	if m.handlers != nil {
		mgr.cache = hookedCache{seen, m.handlers}
	}
	return mgr
}

// hookedCache changes the events of its informers.
type hookedCache struct {
	cache.Cache
	hook hook
}

// hook wraps an event handler of an informer.
type hook func(kind client.Object, h toolscache.ResourceEventHandler) toolscache.ResourceEventHandler

func (c hookedCache) GetInformer(ctx context.Context, o client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	informer, err := c.Cache.GetInformer(ctx, o, opts...)
	return &hookedInformer{informer, o, c.hook}, err
}

type hookedInformer struct {
	cache.Informer
	kind client.Object
	hook hook
}

func (i *hookedInformer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandler(i.hook(i.kind, h))
}

func (i *hookedInformer) AddEventHandlerWithOptions(
	h toolscache.ResourceEventHandler, o toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.Informer.AddEventHandlerWithOptions(i.hook(i.kind, h), o)
}
