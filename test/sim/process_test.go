package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/journal"
	"github.com/purser-csi/purser/internal/kube"
	provisioning "github.com/purser-csi/purser/internal/provision"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	reclaiming "github.com/purser-csi/purser/internal/reclaim"
	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/test/sim/view"
)

const (
	driverName  = "sim.csi.purser"
	callTimeout = 15 * time.Second
	journalName = "purser-journal"
	namespace   = "kube-system"
)

// process is one run of a process under test. Its memory is lost when it ends.
type process struct {
	world  *world
	number int
	role   role
	view   *view.View
	second *view.View // of the controllers, where the provisioner is in the same process
	queue  *handoff.Queue

	attachments *handoff.Attachments // of attachPlane
	backlog     reconcile.Backlog

	ctx    context.Context
	cancel context.CancelFunc
	dead   atomic.Bool
	ending atomic.Bool    // asked to end in order
	parts  sync.WaitGroup // what an end in order waits for

	mu      sync.Mutex
	working map[string]string    // calls under way, by volume
	created map[string]bool      // volumes that CreateVolume was called for
	first   map[types.UID]string // the resource versions of volumes that it made
}

func newProcess(w *world, number int, r role) *process {
	p := &process{world: w, number: number, role: r, view: view.New(w.server, w.schedule.views...), working: map[string]string{}, created: map[string]bool{}, first: map[types.UID]string{}}
	p.view.Offset = time.Duration(number) * 13 * time.Microsecond
	p.prepare()
	if w.operations.count() >= w.schedule.breaksAt { // what is broken is so for a new process too, whose first list is an old one
		p.breakViews()
	}
	p.ctx, p.cancel = context.WithCancel(w.ctx)
	return p
}

func (p *process) isDead() bool { return p.dead.Load() }

var errDead = errors.New("the process is dead")

// kill ends the process at once.
func (p *process) kill() {
	if p.dead.Swap(true) {
		return
	}
	p.world.log("process %d is killed", p.number)
	p.world.processes.addKilled()
	p.cancel()
	if len(p.world.processes.living(p.role)) == 0 {
		p.world.restart(p.role)
	}
}

// drains is how long a process has to end in order, as roles/provisioner_run.go has it.
const drains = 20 * time.Second

// stop asks the process to end.
func (p *process) stop(why string) {
	if p.isDead() || p.ctx.Err() != nil {
		return
	}
	p.world.log("process %d ends: %s", p.number, why)
	p.cancel()
	go func() {
		time.Sleep(drains)
		p.kill()
	}()
}

// endInOrder asks the process to end, and has the next one begin when it has.
func (p *process) endInOrder() {
	if p.ending.Swap(true) {
		return
	}
	p.stop("it is asked to")
	p.parts.Wait()
	p.kill()
}

// run builds the controllers of the process as internal/roles does.
func (p *process) run() {
	if p.role.attaches() {
		p.runAttaching()
		return
	}
	if p.role == csiResizer {
		p.runResizer()
		return
	}
	if p.role == publisher {
		p.runPublisher()
		return
	}
	if p.role == growing {
		p.runExpander()
		return
	}
	if p.role != controllers {
		p.runProvisioner()
	}
	if p.role != provisioner {
		p.runControllers()
	}
}

func (p *process) runProvisioner() {
	m := p.world.mutant
	api := client.Client(gatedClient{Client: p.world.server.Client(), process: p})
	if m.client != nil {
		api = m.client(api, p.view)
	}
	driver := csi.ControllerClient(gatedDriver{process: p})
	cached := client.Reader(p.view)
	if m.cached != nil {
		cached = m.cached(cached)
	}
	journalConfig := journal.Config{
		Live: api, Writer: api, Namespace: namespace, Name: journalName, Holder: fmt.Sprint("process-", p.number), CallTimeout: callTimeout, ClaimExists: provisioning.ClaimExists(api),
		Now: p.world.clock.Now,
	}
	if m.journalConfig != nil {
		m.journalConfig(&journalConfig)
	}
	record := journal.New(journalConfig)
	var entries provisioning.Journal = record
	if m.journal != nil {
		entries = m.journal(entries)
	}
	if m.driver != nil {
		driver = m.driver(driver, entries)
	}
	mgr := m.manager(p.view, api)
	p.wire(mgr, parts{api: api, cached: cached, driver: driver, entries: entries})
	go func() { _ = p.view.Start(p.ctx) }()
	p.parts.Go(func() {
		if err := record.Start(p.ctx); err != nil && !p.isDead() {
			p.stop(err.Error())
		}
	})
	p.begin(mgr)
}

// begin starts everything that was registered.
func (p *process) begin(mgr *fakeManager) {
	for _, r := range mgr.runnables {
		p.parts.Go(func() { _ = r.Start(p.ctx) })
	}
}

// parts are the dependencies of the controllers.
type parts struct {
	api     client.Client
	cached  client.Reader
	writer  client.Client // of what is protected
	driver  csi.ControllerClient
	entries provisioning.Journal
}

var measures = telemetry.NewMetrics(prometheus.NewRegistry(), func() int { return 0 })

var (
	backoff    = reconcile.Backoff{First: time.Second, Most: 20 * time.Second}
	controller = map[csi.ControllerServiceCapability_RPC_Type]bool{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME:     true,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME: true,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT:   true,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME:             true,
	}
	plugin = map[csi.PluginCapability_Service_Type]bool{csi.PluginCapability_Service_CONTROLLER_SERVICE: true}
)

func (p *process) wire(mgr manager.Manager, have parts) {
	underWay, deleting := &csirpc.VolumeLocks{}, &csirpc.VolumeLocks{}
	if !p.world.mutant.strangers {
		deleting = underWay
	}
	own := kube.NewOverlay(have.cached, p.world.clock)
	writer := own.Recording(have.api)
	switch m := p.world.mutant; {
	case m.forgets:
		writer = have.api
	case m.writer != nil:
		writer = m.writer(writer, have.api, own)
	}
	mgr = own.Before(mgr)
	live := client.Reader(have.api)
	if m := p.world.mutant; m.reads != nil {
		live = m.reads(live, own)
	}
	reclaims := reclaiming.New(reclaiming.Config{
		Cached: own, Live: have.api, Writer: writer, CSI: have.driver, Calls: deleting,
		Driver: reclaim.Driver{Name: driverName, Controller: controller}, DropProtection: p.queue != nil, DropAttacher: p.queue != nil && !p.world.mutant.keepsAttacher, Journal: p.world.mutant.waits(have.entries),
		Timeout: callTimeout, Settings: p.settings(4), InFlight: measures.InFlight,
	})
	var claims *provisioning.Controller
	have.cached, have.writer = own, writer
	sources := p.protectSources(mgr, have, &claims)
	claims = provisioning.New(provisioning.Config{
		Cached: own, Live: live, Writer: writer, Journal: have.entries, CSI: have.driver, Calls: underWay,
		Driver:  provision.Driver{Name: driverName, Plugin: plugin, Controller: controller, HasTopology: p.world.work.nodes},
		Options: provision.Options{NamePrefix: "pvc", NameUUIDLength: -1, Identity: fmt.Sprint("process-", p.number), Attaches: p.queue != nil}, HandedOver: p.attend(mgr),
		Sharing: reclaims.Sharing, Sources: sources, Snapshots: p.snapshots(mgr, own, live),
		Timeout: callTimeout, Settings: p.settings(4), InFlight: measures.InFlight,
	})
	if err := errors.Join(claims.AddTo(p.ctx, mgr), reclaims.AddTo(p.ctx, mgr)); err != nil {
		panic(err)
	}
}

// settings are those of the controllers of a process.
func (p *process) settings(workers int) reconcile.Settings {
	s, m := settings(workers), p.world.mutant
	s.Clock = p.world.clock
	s.Events, s.Watch, s.Repeats, s.SayAfter = tells{p}, p.ran, m.repeats, m.sayAfter
	s.Backlog = &p.backlog
	return s
}

func settings(workers int) reconcile.Settings {
	return reconcile.Settings{Workers: workers, Backoff: backoff, Clock: clock.RealClock{}, Events: silent{}, Decided: measures.Decisions}
}

type silent struct{}

func (silent) Event(runtime.Object, string, string, string) {}

// fakeManager has the methods of a manager that the controllers use.
type fakeManager struct {
	manager.Manager
	view      *view.View
	cache     cache.Cache // nil for the view
	client    client.Client
	runnables []manager.Runnable
}

func (m *fakeManager) Add(r manager.Runnable) error         { m.runnables = append(m.runnables, r); return nil }
func (m *fakeManager) GetFieldIndexer() client.FieldIndexer { return m.view }
func (m *fakeManager) GetClient() client.Client             { return m.client }
func (m *fakeManager) GetAPIReader() client.Reader          { return m.client }
func (m *fakeManager) GetScheme() *runtime.Scheme           { return m.client.Scheme() }
func (m *fakeManager) GetLogger() logr.Logger               { return logr.Discard() }

func (m *fakeManager) GetCache() cache.Cache {
	if m.cache != nil {
		return m.cache
	}
	return m.view
}

// GetControllerOptions chooses the queue of client-go. The one of controller-runtime can leave a
// goroutine behind when it is shut down while it hands out a key, which virtual time takes for a
// deadlock.
func (m *fakeManager) GetControllerOptions() config.Controller {
	return config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)}
}
