package up

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/csirpc"
	"github.com/purser-csi/purser/internal/handoff"
	"github.com/purser-csi/purser/internal/journal"
	intent "github.com/purser-csi/purser/internal/journal/rules"
	agent "github.com/purser-csi/purser/internal/node"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/sidecar"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
)

func (h *upRun) startDriver(ctx context.Context) error {
	d := driver.New()
	d.Version, d.Log, d.Tracing = h.Version, logr.FromContextOrDiscard(ctx).WithName("driver"), h.tracing
	d.Endpoint, d.StateDir = "unix://"+filepath.Join(h.dir, socketName), filepath.Join(h.dir, "driver")
	d.NodeID, d.Zones, d.Attach = h.NodeName, h.Zones, h.Attach
	if h.hasSeveralNodes() { // all of them are on this machine
		d.Topology, d.AttachNodes = []string{"false"}, nil
	}
	d.HTTPEndpoint = h.targets.endpoint("")
	d.Listened = func(address string) { h.targets.note("driver", address) }
	d.Notice = func(text string) { h.screen.say("  %s", text) }
	if err := d.Validate(); err != nil {
		return fmt.Errorf("driver: %w", err)
	}
	h.parts = append(h.parts, process.StartPart(ctx, "driver", d.Run))
	return nil
}

// meetDriver waits until the driver answers. The user's own driver must be running already, so the
// wait is bounded.
func (h *upRun) meetDriver(ctx context.Context, endpoint string) (bootstrap.Place, error) {
	began := time.Now()
	h.waiting("the driver at " + endpoint)
	conn, err := csirpc.Dial(csirpc.Config{Endpoint: endpoint, Timeout: 3 * time.Second})
	if err != nil {
		return bootstrap.Place{}, err
	}
	defer conn.Close()
	bound, cancel := context.WithTimeout(ctx, h.DriverWait)
	defer cancel()
	if len(h.parts) > 0 {
		go func() { // a driver that has ended will not answer
			select {
			case <-h.parts[0].Ended:
				cancel()
			case <-bound.Done():
			}
		}()
	}
	if err := conn.WaitReady(bound, func(error) {}); err != nil {
		if ctx.Err() != nil {
			return bootstrap.Place{}, ctx.Err()
		}
		for _, p := range h.parts {
			if failed := p.Err(); failed != nil {
				return bootstrap.Place{}, failed
			}
		}
		return bootstrap.Place{}, fmt.Errorf(
			"%w; start the driver first, or give the right --csi-address (waited %s)",
			err,
			h.DriverWait,
		)
	}
	driver, err := conn.Describe(ctx)
	if err != nil {
		return bootstrap.Place{}, err
	}
	h.screen.step(fmt.Sprintf("driver %s %s", driver.Name, driver.Version), time.Since(began))
	return bootstrap.FindPlace(ctx, conn, driver), nil
}

// startProvisioner returns when the provisioner leads and its caches have synced.
func (h *upRun) startProvisioner(ctx context.Context, endpoint string, queue *handoff.Queue) error {
	p := provisioner.New()
	p.HTTPEndpoint, p.Life = h.HTTPEndpoint, true
	// the lock on the data folder shows that the previous `up` has ended, and with it its driver
	p.Journal.PreviousEnded = h.CSIAddress == ""
	p.Journal.SkipUnreadable = h.Journal.SkipUnreadable
	if err := p.Gates.Set(fmt.Sprintf("%s=true", provisioner.GateCrossNamespaceSource)); err != nil {
		return err
	}
	if err := h.Gates.applyTo(p.Gates); err != nil {
		return err
	}
	if h.publishesCapacity() {
		// Volumes come and go by hand here: a capacity that is seconds old is what a person expects.
		p.Capacity.Enabled, p.Capacity.OwnerLevel, p.Capacity.PollInterval = true, -1, capacityInterval
		p.Capacity.Namespace = process.SystemNamespace
	}
	p.InProcess = provisioner.ColocatedSettings{
		Queue: queue, DropProtection: queue != nil, Attacher: bootstrap.Attaches(h.driver),
	}
	return h.startConfigured(ctx, "csi-provisioner", &p.Config, endpoint, p.Run)
}

// capacityInterval is how often the capacity of each zone is read from the driver.
const capacityInterval = 5 * time.Second

func (h *upRun) startControllers(ctx context.Context, queue *handoff.Queue) error {
	c := controllers.New()
	if err := h.Gates.applyTo(c.Gates); err != nil {
		return err
	}
	c.Attachments, c.Queue = h.attachments, queue
	return h.startConfigured(ctx, "controllers", &c.Config, "", c.Run)
}

// startSidecars starts the roles that the capabilities of the driver take, each under its own account.
func (h *upRun) startSidecars(ctx context.Context, endpoint string, resources []string) error {
	var roles []*sidecar.Common
	if bootstrap.Attaches(h.driver) {
		a := attacher.New()
		a.InProcess = h.attachments // with the attach-detach controller, unless the stock one runs
		roles = append(roles, &a.Common)
	}
	if bootstrap.Expands(h.driver) {
		roles = append(roles, &resizer.New().Common)
	}
	switch {
	case !bootstrap.TakesSnapshots(h.driver):
	case len(resources) == 0:
		h.screen.say("  no snapshots: there are no custom resources beside the programs; run `make cluster-tools`")
	default:
		if err := h.bootstrap.CreateSnapshotClass(ctx, h.driver); err != nil {
			return err
		}
		roles = append(roles, &snapshotter.NewController().Common, &snapshotter.New().Common)
	}
	for _, role := range roles {
		if err := h.Gates.applyTo(role.Gates); err != nil {
			return err
		}
		if err := h.startConfigured(ctx, role.Role().Name, &role.Config, endpoint, role.Run); err != nil {
			return err
		}
	}
	return nil
}

// startConfigured starts a role under its account, with what all roles of the process have in common.
func (h *upRun) startConfigured(
	ctx context.Context, name string, c *sidecar.Config, endpoint string, run func(context.Context) error,
) error {
	api, err := h.bootstrap.ConfigFor(ctx, name)
	if err != nil {
		return err
	}
	c.Version, c.Log, c.API = h.Version, logr.FromContextOrDiscard(ctx).WithName(name), api
	c.CSIAddress, c.Election.Namespace, c.Locks, c.SayAfter = endpoint, process.SystemNamespace, &h.locks, h.SayAfter
	c.Spans, c.Tracing = h.spans, h.tracing
	c.HTTPEndpoint, c.Listened = h.targets.endpoint(c.HTTPEndpoint), h.targets.listened(name)
	return h.startRole(ctx, name, &c.Started, run)
}

// startLease shows that the roles run.
func (h *upRun) startLease(ctx context.Context) {
	h.parts = append(h.parts, process.StartPart(ctx, "lease", func(ctx context.Context) error {
		return showAlive(ctx, h.bootstrap.Client, h.NodeName)
	}))
}

// startNodes starts an agent for each node. Nodes above the bound get a [podRemover] instead.
func (h *upRun) startNodes(ctx context.Context, endpoint string) error {
	nodes := h.nodes()
	served := nodes[:min(len(nodes), mostAgents)]
	if others := nodes[len(served):]; len(others) > 0 {
		h.screen.say(
			"  pods on the nodes from %s on get no volumes: at most %d nodes have an agent", others[0].Name, mostAgents,
		)
		h.startPodRemover(ctx, others)
	}
	keeper := newNodeKeeper(h.bootstrap, h.place, nodes)
	h.parts = append(h.parts, process.StartPart(ctx, "registration of the nodes", keeper.run))
	api, err := h.bootstrap.ConfigFor(ctx, "node")
	if err != nil {
		return err
	}
	n := node.New()
	n.Version, n.Log, n.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("node"), api
	n.Pods, n.Spans, n.Tracing = node.PodsReport, h.spans, h.tracing
	n.HTTPEndpoint, n.Listened = h.targets.endpoint(""), h.targets.listened("node")
	n.Workers = uint(max(2, workersOfNodes/len(served))) //nolint:gosec // from 2 to workersOfNodes
	for _, one := range served {
		n.Several = append(n.Several, node.Place{
			Name: one.Name, Root: h.nodeRoot(one.Name),
			Given: []agent.GivenDriver{{Name: h.driver.Name, Endpoint: endpoint}},
		})
	}
	return h.startRole(ctx, "node agent", &n.Started, n.Run)
}

// Each agent sees the events of all pods, so their number is bounded; their workers are shared out.
const (
	mostAgents     = 50
	workersOfNodes = 64
)

// nodeRoot returns the root directory of a node: the data folder itself for the only one.
func (h *upRun) nodeRoot(name string) string {
	if !h.hasSeveralNodes() {
		return h.dir
	}
	return filepath.Join(h.dir, "nodes", name)
}

func (h *upRun) startPodRemover(ctx context.Context, nodes []bootstrap.Node) {
	api := rest.CopyConfig(h.cluster.RESTConfig())
	api.UserAgent = "purser-up/" + h.Version
	remover := podRemover{api: api, nodes: map[string]bool{}, folder: h.dir}
	for _, node := range nodes {
		remover.nodes[node.Name] = true
	}
	h.parts = append(h.parts, process.StartPart(ctx, "removal of terminated pods", remover.run))
}

// startRole starts a role, and returns when it is ready or has ended.
func (h *upRun) startRole(
	ctx context.Context, name string, onStarted *func(), run func(context.Context) error,
) error {
	began := time.Now()
	h.waiting(name)
	started := make(chan struct{})
	*onStarted = func() { close(started) }
	part := process.StartPart(ctx, name, run)
	h.parts = append(h.parts, part)
	select {
	case <-started:
		h.screen.step(name, time.Since(began))
		return nil
	case <-part.Ended:
		if h.goesOnWithout(part.Err()) {
			return nil
		}
		return part.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// goesOnWithout reports whether the cluster stays up although a part has ended for this error, and
// says once what to do. Without its API server a journal that cannot be read could not be mended.
func (h *upRun) goesOnWithout(err error) bool {
	if !errors.Is(err, journal.ErrUnreadable) {
		return false
	}
	if !h.degraded {
		h.degraded = true
		h.screen.say("  %s %s", h.screen.paint(red, "✗"), err.Error())
		h.screen.say("  The API server and the other roles stay up; claims wait. After a look at the Lease, stop "+
			"this and start it with %s.",
			intent.FlagSkipUnreadable)
	}
	return true
}
