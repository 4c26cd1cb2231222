package node

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/csirpc"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/telemetry"
)

// GivenDriver is a driver that is configured and does not register itself. Another program writes
// its entry in the CSINode.
type GivenDriver struct{ Name, Endpoint string }

// drivers are the drivers that are registered on the node. It is safe for concurrent use.
type drivers struct {
	*Agent
	plugins *plugins

	mu     sync.Mutex
	byName map[string]*registered
}

// registered is one driver with its connection, which connects again by itself. What is below conn is
// protected by drivers.mu once the driver is added.
type registered struct {
	mounting.Driver
	conn *csirpc.Conn
	info *csi.NodeGetInfoResponse // is replaced, not changed

	socket    bool      // registered by a socket: its entry in the CSINode is the agent's
	written   types.UID // of the Node that it was written to; empty if info has changed since
	asked     time.Time // when NodeGetInfo answered last
	asking    bool      // NodeGetInfo is in flight
	exhausted bool      // the driver has answered ResourceExhausted since
}

func newDrivers(a *Agent) *drivers {
	d := &drivers{Agent: a, byName: map[string]*registered{}}
	d.plugins = &plugins{drivers: d, changes: make(chan struct{}), sockets: map[string]*plugin{}}
	return d
}

// get returns what a driver says of its node service; nil if none of the name is registered.
func (d *drivers) get(name string) *mounting.Driver {
	if r := d.registered(name); r != nil {
		return &r.Driver
	}
	return nil
}

// registered returns a copy of what is known of a driver; nil if none of the name is registered.
func (d *drivers) registered(name string) *registered {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.byName[name]; r != nil {
		found := *r
		return &found
	}
	return nil
}

// node returns the client of a driver's node service.
func (d *drivers) node(name string) (csi.NodeClient, error) {
	if r := d.registered(name); r != nil {
		return r.conn.Node(), nil
	}
	return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
}

// edit changes what is known of a registered driver; conn is nil for whichever is registered under
// the name.
func (d *drivers) edit(name string, conn *csirpc.Conn, change func(*registered)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.byName[name]; r != nil && (conn == nil || r.conn == conn) {
		change(r)
	}
}

// bySocket returns copies of the drivers that have registered by a socket.
func (d *drivers) bySocket() (all []registered) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.byName {
		if r.socket {
			all = append(all, *r)
		}
	}
	return all
}

// isKnown reports whether a driver is registered or given.
func (d *drivers) isKnown(name string) bool {
	return d.registered(name) != nil || slices.ContainsFunc(d.Given, func(g GivenDriver) bool { return g.Name == name })
}

// nodeChanged has registrations written that wait for the Node object, or that it has lost.
func (d *drivers) nodeChanged() {
	d.plugins.nodeChanged()
	d.csiNode.changed()
}

// Start implements manager.Runnable. It connects to the given drivers and serves registrations
// until ctx ends.
func (d *drivers) Start(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	for _, given := range d.Given {
		working.Go(func() { d.meet(ctx, given) })
	}
	err := d.plugins.watch(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.byName {
		_ = r.conn.Close()
	}
	return err
}

// The pause between two attempts to reach a driver grows from the first to the second.
const (
	firstMeetPause = 200 * time.Millisecond
	mostMeetPause  = 10 * time.Second
)

// meet connects to a given driver, however late it starts.
func (d *drivers) meet(ctx context.Context, given GivenDriver) {
	for pause := firstMeetPause; ; pause = min(2*pause, mostMeetPause) {
		r, err := d.connect(ctx, given.Name, given.Endpoint)
		if err == nil {
			d.add(r)
			return
		}
		logr.FromContextOrDiscard(ctx).Info(
			"waiting for the csi driver", telemetry.KeyDriver, given.Name, "problem", err.Error(),
		)
		select {
		case <-ctx.Done():
			return
		case <-d.Clock.After(pause):
		}
	}
}

// askBound ends a question about the driver itself, which needs no storage.
const askBound = 10 * time.Second

// observed notes a call to a driver.
func (d *drivers) observed(driver string, o csirpc.Observed) {
	if d.Called != nil {
		d.Called(driver, o.Method, o.Code, o.Took)
	}
	if o.Volume != "" && !strings.HasSuffix(o.Method, "/NodeGetVolumeStats") {
		d.Spans.Add(telemetry.Span{
			From: o.Began, To: o.Began.Add(o.Took), Role: "node " + d.Node, Name: path.Base(o.Method), Code: o.Code,
			Volume: o.Volume,
		})
	}
}

// connect asks the driver for what must be known of it before its first volume.
func (d *drivers) connect(ctx context.Context, name, endpoint string) (*registered, error) {
	cfg := csirpc.Config{Endpoint: endpoint, Timeout: d.Timeout, Trace: d.Tracing.Client()}
	cfg.Observe = func(o csirpc.Observed) { d.observed(name, o) }
	conn, err := csirpc.Dial(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	info, err := conn.Node().NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("driver %s at %s: NodeGetInfo: %w", name, endpoint, err), conn.Close())
	}
	answer, err := conn.Node().NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
	if err != nil {
		return nil, errors.Join(
			fmt.Errorf("driver %s at %s: NodeGetCapabilities: %w", name, endpoint, err), conn.Close(),
		)
	}
	has := map[csi.NodeServiceCapability_RPC_Type]bool{}
	for _, c := range answer.GetCapabilities() {
		has[c.GetRpc().GetType()] = true
	}
	return &registered{conn: conn, info: info, Driver: mounting.Driver{
		Name:         name,
		Stages:       has[csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME],
		Expands:      has[csi.NodeServiceCapability_RPC_EXPAND_VOLUME],
		MountGroup:   has[csi.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP],
		MultiWriters: has[csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER],
		Stats:        has[csi.NodeServiceCapability_RPC_GET_VOLUME_STATS],
	}}, nil
}

// add makes the driver known and has its volumes looked at. A driver that registers again replaces
// the earlier one.
func (d *drivers) add(r *registered) {
	d.mu.Lock()
	before := d.byName[r.Name]
	d.byName[r.Name] = r
	d.mu.Unlock()
	if before != nil {
		_ = before.conn.Close()
	}
	d.enqueueDriver(r.Name)
}

// remove forgets a driver that is gone. Its volumes stay as they are.
func (d *drivers) remove(name string) {
	d.mu.Lock()
	r := d.byName[name]
	delete(d.byName, name)
	d.mu.Unlock()
	if r != nil {
		_ = r.conn.Close()
	}
}

// enqueueDriver has all volumes of a driver looked at.
func (a *Agent) enqueueDriver(name string) {
	a.mu.Lock()
	q := a.volumes
	a.mu.Unlock()
	if q != nil {
		a.addAll(context.Background(), func(key mounting.Key) bool { return key.Driver == name }, q)
	}
}
