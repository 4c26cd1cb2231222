package up

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/controllers/handoff"
	"github.com/purser-csi/purser/internal/csirpc"
	agent "github.com/purser-csi/purser/internal/node"
	"github.com/purser-csi/purser/internal/roles/attacher"
	"github.com/purser-csi/purser/internal/roles/cli"
	"github.com/purser-csi/purser/internal/roles/controllers"
	"github.com/purser-csi/purser/internal/roles/driver"
	"github.com/purser-csi/purser/internal/roles/node"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
	"github.com/purser-csi/purser/internal/roles/snapshotter"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
)

func (h *upRun) startDriver(ctx context.Context) error {
	d := driver.New()
	d.Version, d.Log = h.Version, logr.FromContextOrDiscard(ctx).WithName("driver")
	d.Endpoint, d.StateDir = "unix://"+filepath.Join(h.dir, socketName), filepath.Join(h.dir, "driver")
	d.NodeID, d.Zones, d.Attach = h.NodeName, h.Zones, h.Attach
	if h.hasSeveralNodes() { // all of them are on this machine
		d.Topology, d.AttachNodes = []string{"false"}, nil
	}
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
	api, err := h.bootstrap.ConfigFor(ctx, "csi-provisioner")
	if err != nil {
		return err
	}
	p := provisioner.New()
	p.Version, p.Log, p.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("csi-provisioner"), api
	p.CSIAddress, p.HTTPEndpoint, p.Election.Namespace = endpoint, h.HTTPEndpoint, process.SystemNamespace
	p.Locks = &h.locks
	// the lock on the data folder shows that the previous `up` has ended, and with it its driver
	p.Journal.PreviousEnded = h.CSIAddress == ""
	p.Together = provisioner.TogetherSettings{Queue: queue, DropProtection: queue != nil}
	return h.startRole(ctx, "csi-provisioner", func(started func()) cli.Role { p.Started = started; return p })
}

func (h *upRun) startControllers(ctx context.Context, queue *handoff.Queue) error {
	api, err := h.bootstrap.ConfigFor(ctx, "controllers")
	if err != nil {
		return err
	}
	c := controllers.New()
	c.Attachments = h.attachments
	c.Version, c.Log, c.API, c.Queue = h.Version, logr.FromContextOrDiscard(ctx).WithName("controllers"), api, queue
	c.Election.Namespace = process.SystemNamespace
	return h.startRole(ctx, "controllers", func(started func()) cli.Role { c.Started = started; return c })
}

func (h *upRun) startResizer(ctx context.Context, endpoint string) error {
	api, err := h.bootstrap.ConfigFor(ctx, "csi-resizer")
	if err != nil {
		return err
	}
	r := resizer.New()
	r.Version, r.Log, r.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("csi-resizer"), api
	r.CSIAddress, r.Election.Namespace, r.Locks = endpoint, process.SystemNamespace, &h.locks
	return h.startRole(ctx, "csi-resizer", func(started func()) cli.Role { r.Started = started; return r })
}

// startSnapshots starts both halves of the snapshotter, each under its own account, where the driver
// takes snapshots and the cluster has their kinds.
func (h *upRun) startSnapshots(ctx context.Context, endpoint string, resources []string) error {
	if !bootstrap.TakesSnapshots(h.driver) {
		return nil
	}
	if len(resources) == 0 {
		h.screen.say("  no snapshots: there are no custom resources beside the programs; run `make cluster-tools`")
		return nil
	}
	if err := h.bootstrap.CreateSnapshotClass(ctx, h.driver); err != nil {
		return err
	}
	log := logr.FromContextOrDiscard(ctx)
	api, err := h.bootstrap.ConfigFor(ctx, "snapshot-controller")
	if err != nil {
		return err
	}
	c := snapshotter.NewController()
	c.Version, c.Log, c.API = h.Version, log.WithName("snapshot-controller"), api
	c.Election.Namespace = process.SystemNamespace
	if err := h.startRole(ctx, "snapshot-controller", func(started func()) cli.Role { c.Started = started; return c }); err != nil {
		return err
	}
	if api, err = h.bootstrap.ConfigFor(ctx, "csi-snapshotter"); err != nil {
		return err
	}
	s := snapshotter.New()
	s.Version, s.Log, s.API = h.Version, log.WithName("csi-snapshotter"), api
	s.CSIAddress, s.Election.Namespace, s.Locks = endpoint, process.SystemNamespace, &h.locks
	return h.startRole(ctx, "csi-snapshotter", func(started func()) cli.Role { s.Started = started; return s })
}

// startAttacher starts csi-attacher. It is connected with the attach-detach controller, unless the
// stock one runs.
func (h *upRun) startAttacher(ctx context.Context, endpoint string) error {
	api, err := h.bootstrap.ConfigFor(ctx, "csi-attacher")
	if err != nil {
		return err
	}
	a := attacher.New()
	a.Version, a.Log, a.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("csi-attacher"), api
	a.CSIAddress, a.Election.Namespace, a.Together = endpoint, process.SystemNamespace, h.attachments
	a.Locks = &h.locks
	return h.startRole(ctx, "csi-attacher", func(started func()) cli.Role { a.Started = started; return a })
}

// startNodes starts an agent for each node. Nodes above the bound get a [podRemover] instead.
func (h *upRun) startNodes(ctx context.Context, endpoint string) error {
	nodes := h.nodes()
	served := nodes[:min(len(nodes), mostAgents)]
	if others := nodes[len(served):]; len(others) > 0 {
		h.screen.say("  pods on the nodes from %s on get no volumes: at most %d nodes have an agent", others[0].Name, mostAgents)
		h.startPodRemover(ctx, others)
	}
	api, err := h.bootstrap.ConfigFor(ctx, "node")
	if err != nil {
		return err
	}
	n := node.New()
	n.Version, n.Log, n.API = h.Version, logr.FromContextOrDiscard(ctx).WithName("node"), api
	n.Workers = uint(max(2, workersOfNodes/len(served))) //nolint:gosec // from 2 to workersOfNodes
	for _, one := range served {
		n.Several = append(n.Several, node.Place{
			Name: one.Name, Root: h.nodeRoot(one.Name), Given: []agent.GivenDriver{{Name: h.driver.Name, Endpoint: endpoint}},
		})
	}
	return h.startRole(ctx, "node agent", func(started func()) cli.Role { n.Started = started; return n })
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
func (h *upRun) startRole(ctx context.Context, name string, prepare func(started func()) cli.Role) error {
	began := time.Now()
	started := make(chan struct{})
	part := process.StartPart(ctx, name, prepare(func() { close(started) }).Run)
	h.parts = append(h.parts, part)
	select {
	case <-started:
		h.screen.step(name, time.Since(began))
		return nil
	case <-part.Ended:
		return part.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
