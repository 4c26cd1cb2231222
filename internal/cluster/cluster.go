package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/internal/cluster/pki"

	"github.com/purser-csi/purser/internal/cluster/process"
)

const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Cluster is a control plane that runs. Call Stop, also after a component has ended on its own.
type Cluster struct {
	plan  plan
	admin *rest.Config
	lock  *Lock // nil: the caller's
	crew  *crew

	stopOnce sync.Once
	stopErr  error
}

// Start brings up a cluster and returns when it can be used: the API server is ready, its built-in
// roles are there, and so is the default namespace, with its service account where a controller
// manager runs. If ctx ends during the start, everything is stopped again. After the start ctx is
// not used.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	cfg, err := cfg.normalize()
	if err != nil {
		return nil, fmt.Errorf("starting a cluster: %w", err)
	}
	c := &Cluster{plan: plan{cfg: cfg, files: layout(cfg.Dir)}}
	lock := cfg.Lock
	if lock == nil {
		if lock, err = LockDir(cfg.Dir); err != nil {
			return nil, err
		}
		c.lock = lock
	}
	if err := c.start(ctx, lock); err != nil {
		return nil, errors.Join(err, c.unlock())
	}
	return c, nil
}

// Kubeconfig is the path of the administrator's kubeconfig, which only its owner can read.
func (c *Cluster) Kubeconfig() string { return c.plan.files.adminKubeconfig() }

// RESTConfig is the administrator's configuration, a fresh copy with the client-side rate limit off.
func (c *Cluster) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// AuditLog is the file that has one line per request of this run, where Config.Audit asked for it.
func (c *Cluster) AuditLog() string { return c.plan.files.auditLog() }

// Done is closed when a component has ended on its own, or Stop was called.
func (c *Cluster) Done() <-chan struct{} { return c.crew.done }

// Err says which component ended on its own, how, and what it logged last. It is nil before that,
// and after Stop.
func (c *Cluster) Err() error { return c.crew.err() }

// Stop ends all components in the reverse order of their start, and returns when they are gone. A
// component that does not end in time, or by the end of ctx, is killed. Further calls wait for the
// first one and return what it returned.
func (c *Cluster) Stop(ctx context.Context) error {
	c.stopOnce.Do(func() { c.stopErr = errors.Join(c.crew.stop(ctx), c.unlock()) })
	return c.stopErr
}

func (c *Cluster) unlock() error {
	if c.lock == nil {
		return nil
	}
	return c.lock.Release()
}

func (c *Cluster) start(ctx context.Context, lock *Lock) error {
	if err := c.prepare(); err != nil {
		return fmt.Errorf("preparing the cluster's data folder: %w", err)
	}
	for attempt := 1; ; attempt++ {
		err := c.launch(ctx, lock)
		if err == nil || attempt == portAttempts || !lostPort(err) {
			return err
		}
	}
}

// prepare does the steps of the start that do not depend on the ports.
func (c *Cluster) prepare() error {
	began := time.Now()
	if err := c.plan.files.create(); err != nil {
		return err
	}
	authority, err := pki.Open(c.plan.files.pki(), began)
	if err != nil {
		return err
	}
	if c.plan.creds, err = issue(authority, c.plan.cfg.Components); err != nil {
		return err
	}
	if err := process.WritePrivateFile(c.plan.files.auditPolicy(), []byte(auditPolicy)); err != nil {
		return err
	}
	if err := process.SetAside(c.plan.files.auditLog()); err != nil {
		return err
	}
	c.finished("certificates", began)
	return nil
}

// launch is one attempt with one choice of ports. It leaves nothing running when it fails.
func (c *Cluster) launch(ctx context.Context, lock *Lock) error {
	if err := c.aim(); err != nil {
		return err
	}
	c.crew = newCrew(c.plan, lock)
	err := c.bringUp(ctx)
	if err == nil {
		return nil
	}
	if ended := c.crew.err(); errors.Is(err, errEnded) && ended != nil {
		err = ended
	}
	c.crew.kill(ctx)
	return fmt.Errorf("starting the cluster: %w", err)
}

// aim chooses ports and writes the files that contain them.
func (c *Cluster) aim() (err error) {
	if c.plan.ports, err = choosePorts(c.plan.files.ports()); err != nil {
		return err
	}
	if c.admin, err = c.plan.creds.restConfig(c.plan.creds.admin, c.plan.apiServerURL()); err != nil {
		return err
	}
	for component, pair := range c.plan.creds.clients {
		cfg, err := c.plan.creds.restConfig(pair, c.plan.apiServerURL())
		if err != nil {
			return err
		}
		if err := writeKubeconfig(c.plan.files.kubeconfig(component), cfg); err != nil {
			return err
		}
	}
	return writeKubeconfig(c.plan.files.adminKubeconfig(), c.admin)
}

func (c *Cluster) finished(step string, began time.Time) {
	c.plan.cfg.Progress(Step{Name: step, Took: time.Since(began)})
}
