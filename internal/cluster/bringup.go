package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/purser-csi/purser/internal/cluster/process"
)

const (
	// startBound is long, for machines under load.
	startBound = 2 * time.Minute

	// portAttempts bounds how often the start is retried because another process has taken a port.
	portAttempts = 5
)

// bringUp starts the components and waits until the cluster can be used.
func (c *Cluster) bringUp(ctx context.Context) error {
	late := fmt.Errorf("not ready within %s, see %s", startBound, c.plan.files.path("logs"))
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, late)
	defer cancel()
	probe, err := newProbe(c.admin)
	if err != nil {
		return err
	}
	defer probe.close()

	if err := c.bringUpServer(ctx, probe); err != nil {
		return err
	}
	return c.bringUpClients(ctx, probe)
}

// bringUpServer starts etcd and the API server in parallel: etcd is ready before the API server
// needs it.
func (c *Cluster) bringUpServer(ctx context.Context, probe *probe) error {
	began := time.Now()
	for _, component := range []Component{Etcd, APIServer} {
		if err := c.crew.add(component); err != nil {
			return err
		}
	}
	c.plan.cfg.Waiting("etcd and API server")
	// Among much else it waits for the built-in roles.
	if err := probe.wait(ctx, "/readyz", c.crew.done); err != nil {
		return err
	}
	c.finished("etcd and API server", began)
	return nil
}

// bringUpClients starts the other components, and waits for objects that only a working control
// plane creates.
func (c *Cluster) bringUpClients(ctx context.Context, probe *probe) error {
	began := time.Now()
	for _, component := range c.plan.cfg.Components {
		if err := c.crew.add(component); err != nil {
			return err
		}
	}
	c.plan.cfg.Waiting("default namespace")
	if err := probe.wait(ctx, "/api/v1/namespaces/default", c.crew.done); err != nil {
		return err
	}
	c.finished("default namespace", began)
	if !c.plan.cfg.Components.Has(ControllerManager) {
		return nil
	}
	c.plan.cfg.Waiting("default service account, by kube-controller-manager")
	if err := probe.wait(ctx, "/api/v1/namespaces/default/serviceaccounts/default", c.crew.done); err != nil {
		return err
	}
	c.finished("default service account", began)
	return nil
}

// lostPort reports whether a component ended because another process has taken its port since it
// was chosen.
func lostPort(err error) bool {
	exit, ok := errors.AsType[*process.Exit](err)
	if !ok {
		return false
	}
	log, err := os.ReadFile(exit.Log)
	return err == nil && strings.Contains(string(log), "address already in use")
}
