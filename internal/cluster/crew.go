package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/purser-csi/purser/internal/cluster/process"
)

const (
	// stopBound is how long a component may take to end.
	stopBound = 10 * time.Second

	// apiServerBound is the same for the API server, which waits for every open watch to end by
	// itself. A kill loses nothing: acknowledged writes are in etcd.
	apiServerBound = 2 * time.Second

	// brokenBound is the same once a component has ended on its own. Without etcd the API server
	// would never end.
	brokenBound = 2 * time.Second
)

// crew are the processes of one cluster, in the order of their start.
type crew struct {
	plan plan
	lock *Lock
	done chan struct{} // closed once: by the first unexpected end, or by the wanted one

	mu       sync.Mutex
	members  []*process.Process
	watchers sync.WaitGroup
	ended    error
	closed   bool
}

func newCrew(p plan, lock *Lock) *crew {
	return &crew{plan: p, lock: lock, done: make(chan struct{})}
}

// add starts a component and watches over it.
func (c *crew) add(component Component) error {
	p, err := process.Start(process.Config{
		Name: string(component),
		Path: c.plan.cfg.Binaries[string(component)],
		Args: c.plan.arguments(component),
		Log:  c.plan.files.log(component),
		// The lock on the data is free only when no process uses the data any more.
		Inherit: []*os.File{c.lock.file},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.members = append(c.members, p)
	c.watchers.Go(func() {
		<-p.Done()
		c.finish(p.Exit())
	})
	return nil
}

// finish stores the first reason for the end, and closes done.
func (c *crew) finish(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed, c.ended = true, why
	close(c.done)
}

func (c *crew) started() []*process.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.members)
}

func (c *crew) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// stop ends the processes one after the other, the last one first: each of them uses those before
// it. Whatever ends from here on is wanted. In a crew that is already broken some may have to be
// killed: that is no news after its err.
func (c *crew) stop(ctx context.Context) error {
	c.finish(nil)
	if c.err() == nil {
		return c.stopAll(ctx, stopBound)
	}
	_ = c.stopAll(ctx, brokenBound)
	return nil
}

func (c *crew) stopAll(ctx context.Context, bound time.Duration) error {
	var errs []error
	for _, p := range slices.Backward(c.started()) {
		errs = append(errs, stopOne(ctx, p, bound))
	}
	c.watchers.Wait()
	return errors.Join(errs...)
}

func stopOne(ctx context.Context, p *process.Process, bound time.Duration) error {
	mayBeKilled := p.Name() == string(APIServer)
	if mayBeKilled {
		bound = min(bound, apiServerBound)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("%s passed", bound))
	defer cancel()
	err := p.Stop(bounded)
	if mayBeKilled && ctx.Err() == nil && bounded.Err() != nil {
		return nil
	}
	return err
}

// kill ends the processes at once, without an orderly end: the cluster was never complete.
func (c *crew) kill(ctx context.Context) {
	now, cancel := context.WithCancel(ctx)
	cancel()
	_ = c.stop(now) // says only that they were killed
}
