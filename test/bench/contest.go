package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/bench/usage"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// contest is the ground that the contenders share.
type contest struct {
	*rig
	load

	claims   int
	rounds   int
	last     bool     // trial only
	only     []string // names of the contenders that take part; none for all
	trial    string   // that the names of the trials must contain; empty for all
	profiles string   // folder
	driver   *instant
	log      auditLog
	servers  map[string]int // process ids
	namespaces
	outcome outcome
}

// outcome is all that was measured.
type outcome struct {
	claims, pairs int
	volatile      bool  // etcd does not wait for the disk
	every         []row // of all rounds
	rows          []row // the middle ones
	idle          []idleResult
}

// idleResult is what a contender costs that has nothing to do.
type idleResult struct {
	contender    string
	after, share float64      // of one core: right after work, and later
	memory       usage.Memory // later
}

const (
	// afterTime is how long a contender is looked at that has just ended its work: twice the resync
	// of the stock controllers.
	afterTime = 30 * time.Second
	// calmDown is when nothing is left of the work: within a minute our roles collect its garbage
	// and give the memory back, once.
	calmDown = 80 * time.Second
	// idleTime is how long it is looked at then, for what goes on forever: six parts of the audit.
	idleTime = time.Minute
)

const (
	contestClass = "contest"
	staticClass  = "static"
	nobodysClass = "floor" // without a provisioner
)

func newContest(ctx context.Context, bin, dir string, o options) (_ *contest, err error) {
	c := &contest{
		rig:      &rig{bin: bin, dir: dir},
		claims:   o.claims,
		rounds:   o.rounds,
		last:     o.last,
		trial:    o.trial,
		profiles: o.profiles,
		outcome:  outcome{claims: o.claims, pairs: o.pairs, volatile: o.volatile},
	}
	c.only = o.names()
	binaries, err := cluster.FindBinaries(cluster.Components{cluster.ControllerManager}.Programs(), bin)
	if err != nil {
		return nil, err
	}
	if c.cluster, err = cluster.Start(ctx, cluster.Config{
		Dir: filepath.Join(dir, "cluster"), Binaries: binaries,
		Audit: true, Durable: !o.volatile,
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.close() // the error before it is the one to tell
		}
	}()
	if c.servers, err = usage.ServersIn(dir); err != nil {
		return nil, err
	}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := c.createObjects(ctx); err != nil {
		return nil, err
	}
	if err := c.loadAsAccount(ctx); err != nil {
		return nil, err
	}
	c.load = load{api: c.rig.api, workers: o.workers}
	// The watch of the observer must not delay the API server, which waits for each slow watch.
	watches, err := kube.WatchClient(c.cluster.RESTConfig())
	if err != nil {
		return nil, err
	}
	if c.cache, err = ctrlcache.New(c.cluster.RESTConfig(),
		ctrlcache.Options{HTTPClient: watches, Scheme: c.rig.api.Scheme()}); err != nil {
		return nil, err
	}
	go func() { _ = c.cache.Start(ctx) }() // ends with ctx
	c.log = auditLog{&audit.Log{Path: c.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(c.rig.api.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}}
	return c, nil
}

// names of the contenders that take part; none for all.
func (o options) names() []string {
	if o.only == "" {
		return nil
	}
	return strings.Split(o.only, ",")
}

// known refuses contenders and trials that are not there: a contest takes minutes.
func (o options) known() error {
	var who, what []string
	for _, one := range (&contest{rig: &rig{}}).contenders() {
		who = append(who, one.short)
	}
	for _, t := range append(trials(), besideMany(o.pairs)) {
		what = append(what, t.name)
	}
	for _, name := range o.names() {
		if !slices.Contains(who, name) {
			return fmt.Errorf("-only=%s: there is no contender %q, but %s", o.only, name, strings.Join(who, ", "))
		}
	}
	if !slices.ContainsFunc(what, func(name string) bool { return strings.Contains(name, o.trial) }) {
		return fmt.Errorf("-trial=%s: no trial has this in its name, which are: %s", o.trial, strings.Join(what, "; "))
	}
	return nil
}

// createObjects creates the classes, and the accounts of the contenders with what they may do.
func (c *contest) createObjects(ctx context.Context) error {
	immediate := storagev1.VolumeBindingImmediate
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: accountNamespace}},
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: contestClass}, Provisioner: instantName,
			VolumeBindingMode: &immediate,
		},
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: staticClass},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &immediate,
		},
	} {
		if err := c.rig.api.Create(ctx, object); err != nil {
			return fmt.Errorf("%T: %w", object, err)
		}
	}
	return c.grant(ctx)
}

// run is the whole contest.
func (c *contest) run(ctx context.Context) (err error) {
	if c.driver, err = serveInstant(ctx, c.socket()); err != nil {
		return err
	}
	defer c.driver.close()
	contenders := slices.DeleteFunc(
		c.contenders(),
		func(who contender) bool { return len(c.only) > 0 && !slices.Contains(c.only, who.short) },
	)
	if !c.last {
		if err := c.turns(ctx, contenders, trials()); err != nil {
			return err
		}
	}
	if c.outcome.pairs == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "making %d bound claims and volumes ...\n", c.outcome.pairs)
	if err := c.present(ctx, c.outcome.pairs); err != nil {
		return err
	}
	return c.turns(ctx, contenders, []trial{besideMany(c.outcome.pairs)})
}

// turns runs one trial with every contender, and then the next one, round after round and every
// second round the other way around: a machine that is faster at one time than at another is so for
// all.
func (c *contest) turns(ctx context.Context, contenders []contender, all []trial) error {
	for range c.rounds {
		for _, together := range sessions(all) {
			if !slices.ContainsFunc(together, func(t trial) bool { return strings.Contains(t.name, c.trial) }) {
				continue
			}
			for _, who := range contenders {
				if who.dynamicOnly && together[0].static || who.paceOnly && together[0].name != trialDynamic {
					continue
				}
				if err := c.turn(ctx, who, together); err != nil {
					return fmt.Errorf("%s: %w", who.name, err)
				}
			}
		}
		slices.Reverse(contenders)
	}
	return nil
}

// sessions are the trials that a contender does without being started anew.
func sessions(all []trial) (parts [][]trial) {
	for _, t := range all {
		if !t.goesOn {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], t)
	}
	return parts
}

// turn has one contender do the trials.
func (c *contest) turn(ctx context.Context, who contender, all []trial) error {
	fmt.Fprintf(os.Stderr, "%s: %s ...\n", who.name, all[0].name)
	t, err := who.start(ctx)
	if err != nil {
		return err
	}
	defer t.kill()
	if t.controllers != nil {
		if err := c.awaitWork(ctx, who); err != nil {
			return err
		}
	}
	var w *work
	for _, trial := range all {
		if !trial.goesOn {
			if w, err = c.work(ctx, who, c.claims); err != nil {
				return err
			}
		}
		if err := c.try(ctx, who, t, trial, w); err != nil {
			return fmt.Errorf("%s: %w", trial.name, err)
		}
		if trial.rest && t.controllers != nil && !c.outcome.hasRested(who.name) {
			if err := c.rest(ctx, who, t); err != nil {
				return err
			}
		}
	}
	if left, _ := c.driver.left(); left > 0 {
		return fmt.Errorf("%d volumes are left over", left)
	}
	return t.finish()
}

// hasRested reports whether the contender was looked at in an earlier round.
func (o outcome) hasRested(name string) bool {
	return slices.ContainsFunc(o.idle, func(r idleResult) bool { return r.contender == name })
}

// rest looks at the controllers while there is nothing to do.
func (c *contest) rest(ctx context.Context, who contender, t team) (err error) {
	if _, err := c.log.quiet(ctx); err != nil {
		return err
	}
	result, pid := idleResult{contender: who.name}, t.controllers.Pid()
	if result.after, err = shareOf(ctx, pid, afterTime); err != nil {
		return err
	}
	if err := stand(ctx, calmDown-afterTime); err != nil {
		return err
	}
	if result.share, err = shareOf(ctx, pid, idleTime); err != nil {
		return err
	}
	result.memory, err = usage.MemoryOf(pid)
	c.outcome.idle = append(c.outcome.idle, result)
	return err
}

// shareOf is the part of a core that a process uses in the time that follows.
func shareOf(ctx context.Context, pid int, span time.Duration) (float64, error) {
	before, err := usage.CPUOf(pid)
	if err != nil {
		return 0, err
	}
	if err := stand(ctx, span); err != nil {
		return 0, err
	}
	after, err := usage.CPUOf(pid)
	return (after - before).Seconds() / span.Seconds(), err
}

// stand lets time pass.
func stand(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// namespaces gives each trial one of its own.
type namespaces struct{ made int }

func (c *contest) makeNamespace(ctx context.Context, whose string) (name string, err error) {
	c.made++
	name = fmt.Sprintf("%s-%d", whose, c.made)
	return name, c.rig.api.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// auditLog has what was asked, and a way to wait for its end.
type auditLog struct{ *audit.Log }

// quietTime is the time without writes after which the count is complete: events are written late.
const quietTime = time.Second

// quiet is the end of the log when nothing has been written for a while.
func (l auditLog) quiet(ctx context.Context) (audit.Mark, error) {
	end, err := l.Mark(ctx)
	for err == nil {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(quietTime):
		}
		var tally audit.Tally
		begin := end
		if end, err = l.Mark(ctx); err != nil {
			return 0, err
		}
		if tally, err = l.Between(begin, end); err == nil && tally.Where(isWork).All() == 0 {
			return end, nil
		}
	}
	return 0, err
}

// isWork leaves out what the cluster writes for itself, as long as it runs.
func isWork(r audit.Request) bool {
	switch strings.Split(r.Resource, "/")[0] {
	case "persistentvolumes", "persistentvolumeclaims", "events", "pods", "leases":
		return r.IsWrite() && strings.HasPrefix(r.User, "system:serviceaccount:")
	}
	return false
}
