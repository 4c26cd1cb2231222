package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/purser-csi/purser/test/bench/audited"
)

// combination is an attach-detach controller and an attacher.
type combination struct {
	audited.Contender
	volumes int // at once; 0 for as many as the flag says
}

const attachDetach = "persistentvolume-attach-detach-controller"

var (
	stockLifted = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}

	ourController = audited.Program{
		Name: "purser", Args: []string{"controllers", "--controllers=" + attachDetach}, Account: accountController,
	}
)

func stockController(args ...string) audited.Program {
	return audited.Program{
		Name: "kube-controller-manager", Account: accountController,
		Args: append([]string{"--leader-elect=false", "--secure-port=0", "--controllers=" + attachDetach}, args...),
	}
}

func (c *contest) combinations() (all []combination) {
	socket := filepath.Join(c.Dir, socketName)
	ourAttacher := audited.Program{
		Name: "purser", Args: []string{"csi-attacher", "--worker-threads=100"}, Account: accountAttacher, Socket: socket,
	}
	stockAttacher := func(args ...string) audited.Program {
		return audited.Program{Name: "upstream-csi-attacher", Args: args, Account: accountAttacher, Socket: socket}
	}
	plane := audited.Program{
		Name: "purser", Args: []string{"plane", "--with-attacher", "--controllers=" + attachDetach},
		Account: accountController, Socket: socket,
	}
	lifted := append(slices.Clone(stockLifted), "--worker-threads=100")
	for _, one := range []audited.Contender{
		{Name: "ours in one process", Programs: []audited.Program{plane}},
		{Name: "ours in two processes", Programs: []audited.Program{ourController, ourAttacher}},
		{Name: "our controller, upstream's attacher", Programs: []audited.Program{ourController, stockAttacher(lifted...)}},
		{Name: "stock controller, our attacher", Programs: []audited.Program{stockController(stockLifted...), ourAttacher}},
		{Name: "stock, limits lifted", Programs: []audited.Program{stockController(stockLifted...), stockAttacher(lifted...)}},
	} {
		all = append(all, combination{Contender: one})
	}
	shipped := audited.Contender{Name: "stock, as shipped", Programs: []audited.Program{stockController(), stockAttacher()}}
	return append(all, combination{shipped, shippedVolumes})
}

// shippedVolumes are fewer: at 2 in a second, 500 would take four minutes.
const shippedVolumes = 40

// measure plays everything to one combination, and prints what it took.
func (c *contest) measure(ctx context.Context, one combination) (err error) {
	running, err := c.Launch(one.Contender)
	defer func() {
		for _, p := range running {
			p.Kill()
		}
	}()
	if err != nil {
		return err
	}
	if err := c.warmUp(ctx); err != nil {
		return err
	}
	fmt.Printf("\n%s\n", one.Name)
	c.running = running
	for _, part := range []func(context.Context, combination) error{c.idle, c.moves, c.burst, c.starved} {
		if err := part(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// patience is for one part of a measurement.
const patience = 3 * time.Minute

// warmUp attaches and detaches one volume, so that all programs are known to work.
func (c *contest) warmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	one, err := c.volumes(ctx, "warm-", 1)
	if err != nil {
		return err
	}
	if _, err := c.roundTrip(ctx, one); err != nil {
		return fmt.Errorf("the programs do not attach: %w", err)
	}
	return nil
}

// took is what a round trip of volumes took.
type took struct {
	attach, detach       []time.Duration
	allAttach, allDetach time.Duration
	created, deleted     time.Duration // of these, until the last pod was created, and deleted
}

func (c *contest) roundTrip(ctx context.Context, all []placed) (t took, err error) {
	began := time.Now()
	if err := c.start(ctx, all); err != nil {
		return t, err
	}
	t.created = time.Since(began)
	if t.attach, err = c.observer.untilAttached(ctx, all); err != nil {
		return t, fmt.Errorf("attach: %w", err)
	}
	t.allAttach, began = time.Since(began), time.Now()
	if err := c.end(ctx, all); err != nil {
		return t, err
	}
	t.deleted = time.Since(began)
	if t.detach, err = c.observer.untilDetached(ctx, all); err != nil {
		return t, fmt.Errorf("detach: %w", err)
	}
	t.allDetach = time.Since(began)
	return t, nil
}

// idle attaches and detaches one volume after the other.
func (c *contest) idle(ctx context.Context, _ combination) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var attach, detach []time.Duration
	all, err := c.volumes(ctx, "idle-", c.count.idle)
	if err != nil {
		return err
	}
	for _, p := range all {
		t, err := c.roundTrip(ctx, []placed{p})
		if err != nil {
			return fmt.Errorf("idle: %w", err)
		}
		attach, detach = append(attach, t.attach...), append(detach, t.detach...)
	}
	fmt.Printf("  idle, one volume after the other   attach p50 %s p99 %s   detach p50 %s p99 %s\n",
		audited.Short(audited.Percentile(attach, 50)), audited.Short(audited.Percentile(attach, 99)),
		audited.Short(audited.Percentile(detach, 50)), audited.Short(audited.Percentile(detach, 99)))
	return nil
}

// moves has pods go to another node: the time from the report that the volume is unused to the list
// of the new node.
func (c *contest) moves(ctx context.Context, _ combination) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := c.volumes(ctx, "move-", c.count.moves)
	if err != nil {
		return err
	}
	var waited []time.Duration
	for _, p := range all {
		to := placed{c.nodes[(slices.Index(c.nodes, p.node)+1)%len(c.nodes)], p.handle}
		one := []placed{p}
		err := c.start(ctx, one)
		if err == nil {
			_, err = c.observer.untilAttached(ctx, one)
		}
		if err == nil {
			err = c.start(ctx, []placed{to})
		}
		if err == nil {
			err = c.end(ctx, one)
		}
		if err == nil {
			_, err = c.observer.untilAttached(ctx, []placed{to})
		}
		if err != nil {
			return fmt.Errorf("move: %w", err)
		}
		c.observer.mu.Lock()
		waited = append(waited, c.observer.listed[at(to.node, to.handle)].Sub(c.observer.freed[at(p.node, p.handle)]))
		c.observer.mu.Unlock()
		if err := c.end(ctx, []placed{to}); err != nil {
			return err
		}
		if _, err := c.observer.untilDetached(ctx, []placed{to}); err != nil {
			return err
		}
	}
	fmt.Printf("  pod moved, from unused to listed   p50 %s p99 %s\n",
		audited.Short(audited.Percentile(waited, 50)), audited.Short(audited.Percentile(waited, 99)))
	return nil
}

// burst attaches and detaches many volumes at once, and counts the requests and calls.
func (c *contest) burst(ctx context.Context, one combination) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	n := c.count.volumes
	if one.volumes > 0 {
		n = min(n, one.volumes)
	}
	all, err := c.volumes(ctx, "many-", n)
	if err != nil {
		return err
	}
	published, unpublished := c.driver.publishes.Load(), c.driver.unpublishes.Load()
	from, err := c.Log.Mark(ctx)
	if err != nil {
		return err
	}
	before, err := c.spent()
	if err != nil {
		return err
	}
	t, err := c.roundTrip(ctx, all)
	if err != nil {
		return fmt.Errorf("%d volumes: %w", n, err)
	}
	after, err := c.spent()
	if err != nil {
		return err
	}
	to, err := c.Log.Mark(ctx)
	if err != nil {
		return err
	}
	tally, err := c.Log.Between(from, to)
	if err != nil {
		return err
	}
	fmt.Printf("  %d volumes on %d nodes             %s   %s\n", n, len(c.nodes),
		pace("attach", n, t.allAttach, t.attach), pace("detach", n, t.allDetach, t.detach))
	fmt.Printf("  of it for the pods alone           created in %s of %s, deleted in %s of %s\n",
		audited.Short(t.created), audited.Short(t.allAttach), audited.Short(t.deleted), audited.Short(t.allDetach))
	published, unpublished = c.driver.publishes.Load()-published, c.driver.unpublishes.Load()-unpublished
	fmt.Printf("  calls a volume                     publish %.2f, unpublish %.2f\n",
		float64(published)/float64(n), float64(unpublished)/float64(n))
	fmt.Print(audited.Requests(tally, n, accountController, accountAttacher))
	after.since(before).print(n, tally.All(), t.allAttach+t.allDetach)
	return c.events(ctx, all)
}

// pace says how many volumes were done in a second, and how long one took.
func pace(what string, n int, all time.Duration, each []time.Duration) string {
	return fmt.Sprintf("%s %.0f/s p50 %s p99 %s", what, float64(n)/all.Seconds(),
		audited.Short(audited.Percentile(each, 50)), audited.Short(audited.Percentile(each, 99)))
}

// slowDetaches are in flight when one volume is attached.
const slowDetaches = 60

// starved attaches one volume while the driver works on slow detaches.
func (c *contest) starved(ctx context.Context, one combination) error {
	if one.volumes > 0 {
		return nil // its limits alone make it wait
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	slow, err := c.volumes(ctx, slowPrefix, slowDetaches)
	if err != nil {
		return err
	}
	fast, err := c.volumes(ctx, "fast-", 1)
	if err != nil {
		return err
	}
	if err := c.start(ctx, slow); err != nil {
		return err
	}
	if _, err := c.observer.untilAttached(ctx, slow); err != nil {
		return err
	}
	if err := c.end(ctx, slow); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // the attacher has begun to detach, as far as it does so at once
	if err := c.start(ctx, fast); err != nil {
		return err
	}
	waited, err := c.observer.untilAttached(ctx, fast)
	if err != nil {
		return err
	}
	fmt.Printf("  attach behind %d slow detaches     %s\n", slowDetaches, audited.Short(waited[0]))
	if err := c.end(ctx, fast); err != nil {
		return err
	}
	_, err = c.observer.untilDetached(ctx, append(slow, fast...))
	return err
}
