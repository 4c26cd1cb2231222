package claims

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

// contest is the ground that the contenders share, and the flags.
type contest struct {
	*runner.Run
	load

	claims, many    int // bound claims and volumes that are there: for the last trial, and instead of a contest
	last, failover  bool
	volatile        bool
	trial, profiles string
	driver          *instant
	made            int // namespaces, one for each trial
	outcome         outcome
}

// Workload is the life of claims.
func Workload() runner.Workload {
	c := &contest{driver: &instant{
		Driver: runner.NewDriver(instantName, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME),
	}}
	return runner.Workload{
		Name: "claims", Summary: "give claims their volumes: the stock volume controllers, ours and a bare client",
		Timeout: 40 * time.Minute, Flags: c.flags, Check: c.check, Cluster: c.components, Driver: c.served,
		Prepare: c.prepare, Play: c.play, Report: c.report,
		Contenders: func() (all []runner.Contender) {
			for _, who := range c.contenders() {
				all = append(all, who.Contender)
			}
			return all
		},
	}
}

func (c *contest) flags(set *flag.FlagSet) {
	set.IntVar(&c.claims, "claims", 1000, "claims at once in each trial")
	set.IntVar(&c.workers, "workers", 32, "requests in flight of the load and of the floors")
	set.IntVar(&c.outcome.pairs, "pairs", 10000,
		"bound claims and volumes that are there for the last trial; 0 for no such trial")
	set.StringVar(&c.trial, "trial", "", "`words` that stand in the names of the trials to do, such as dynamic; empty for all")
	set.IntVar(&c.many, "present", 0, "instead of a contest: volumes that are there, for the memory that they cost")
	set.BoolVar(&c.last, "last", false, "leave out all trials but the last, the one beside bound claims")
	set.BoolVar(&c.failover, "failover", false, "instead of a contest: how long claims wait when the leader of two ends")
	set.BoolVar(&c.volatile, "volatile", false,
		"etcd does not wait for the disk, as it does in every cluster whose data is to last")
	set.StringVar(&c.profiles, "profiles", "",
		"`folder` for profiles, for go tool pprof: of the processor in a contest, of the heap with -present")
}

func (c *contest) check(runner.Options) error {
	if c.claims < 1 || c.workers < 1 || c.many < 0 || c.outcome.pairs < 0 {
		return errors.New("-claims and -workers must be at least 1, -pairs and -present not negative")
	}
	if c.profiles != "" {
		if is, err := os.Stat(c.profiles); err != nil || !is.IsDir() {
			return fmt.Errorf("-profiles=%s: is not a folder; make it first", c.profiles)
		}
	}
	var what []string
	for _, t := range append(trials(), besideMany(c.outcome.pairs)) {
		what = append(what, t.name)
	}
	if !slices.ContainsFunc(what, func(name string) bool { return strings.Contains(name, c.trial) }) {
		return fmt.Errorf("-trial=%s: no trial has this in its name, which are: %s", c.trial, strings.Join(what, "; "))
	}
	return nil
}

// contends is false for -present and -failover.
func (c *contest) contends() bool { return c.many == 0 && !c.failover }

// components has the failover run beside the PV controller, which gives claims to the driver.
func (c *contest) components(config *cluster.Config) {
	config.Durable = c.contends() && !c.volatile
	if c.failover && c.many == 0 {
		config.Components = cluster.Components{cluster.ControllerManager}
	}
}

// served is the driver of the contest. The other modes start the built-in one.
func (c *contest) served() scripted.Server {
	if c.contends() {
		return c.driver
	}
	return nil
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
	after, share float64       // of one core: right after work, and later
	memory       runner.Memory // later
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

// prepare creates the classes, and the accounts of the contenders with the permissions that Purser
// ships. The load, and with it the floors, uses a token as the contenders do: the API server verifies
// a certificate anew with each request, which took a fifteenth of its time.
func (c *contest) prepare(ctx context.Context, r *runner.Run) error {
	c.Run, c.api, c.cache = r, r.API, r.Cache
	c.outcome.claims, c.outcome.volatile = c.claims, c.volatile
	if !c.contends() {
		return nil
	}
	immediate := storagev1.VolumeBindingImmediate
	if err := r.Create(ctx,
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: contestClass}, Provisioner: instantName, VolumeBindingMode: &immediate,
		},
		&storagev1.StorageClass{
			ObjectMeta:  metav1.ObjectMeta{Name: staticClass},
			Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &immediate,
		}); err != nil {
		return err
	}
	if err := r.Roles(ctx, accountControllers, accountProvisioner); err != nil {
		return err
	}
	both := []string{"purser-controllers", "purser-csi-provisioner"}
	if err := r.Bound(ctx, accountPlane, both, both); err != nil {
		return err
	}
	if err := r.Bound(ctx, accountLoad, []string{"cluster-admin"}, nil); err != nil {
		return err
	}
	config, err := r.Config(accountLoad)
	if err == nil {
		c.api, err = client.New(config, client.Options{Scheme: r.API.Scheme()})
	}
	return err
}

// play is the whole contest, or one of the other modes.
func (c *contest) play(ctx context.Context, _ *runner.Run) (err error) {
	if !c.contends() {
		return c.withDriver(ctx)
	}
	if !c.last {
		if err := c.turns(ctx, trials()); err != nil {
			return err
		}
	}
	if c.outcome.pairs == 0 {
		return nil
	}
	fmt.Fprintf(os.Stderr, "making %d bound claims and volumes ...\n", c.outcome.pairs)
	if err := c.makePairs(ctx, c.outcome.pairs); err != nil {
		return err
	}
	return c.turns(ctx, []trial{besideMany(c.outcome.pairs)})
}

// withDriver runs a mode beside the built-in driver.
func (c *contest) withDriver(ctx context.Context) error {
	driver, err := c.Exec("driver", "purser", []string{
		"driver", "--endpoint", "unix://" + c.Socket(), "--state-dir", filepath.Join(c.Dir, "driver"),
	})
	if err != nil {
		return err
	}
	defer driver.Kill()
	if c.many == 0 {
		f, err := c.measureFailover(ctx)
		if err == nil {
			fmt.Print(f.report())
		}
		return err
	}
	all, err := c.measurePresent(ctx, c.many)
	if err != nil {
		return err
	}
	fmt.Print(reportPresent(all, c.many))
	return saveHeaps(c.profiles, all)
}

// report is empty without a measured trial.
func (c *contest) report() string {
	if c.outcome.takeMiddle(); len(c.outcome.rows) == 0 {
		return ""
	}
	return c.outcome.report()
}

// turns has the contenders take turns in each session.
func (c *contest) turns(ctx context.Context, all []trial) error {
	var parts []runner.Part
	for _, together := range sessions(all) {
		if !slices.ContainsFunc(together, func(t trial) bool { return strings.Contains(t.name, c.trial) }) {
			continue
		}
		parts = append(parts, runner.Part{
			Name: together[0].name,
			Skips: func(one runner.Contender) bool {
				who := c.find(one)
				return who.dynamicOnly && together[0].static || who.paceOnly && together[0].name != trialDynamic
			},
			Measure: func(ctx context.Context, running *runner.Running) error { return c.turn(ctx, running, together) },
		})
	}
	return c.Turns(ctx, parts...)
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
func (c *contest) turn(ctx context.Context, running *runner.Running, all []trial) error {
	t, err := c.team(ctx, running)
	defer t.end()
	if err == nil && t.controllers != nil {
		err = c.awaitWork(ctx, t.contender)
	}
	if err != nil {
		return err
	}
	var w *work
	for _, trial := range all {
		if !trial.goesOn {
			if w, err = c.work(ctx, t.contender, c.claims); err != nil {
				return err
			}
		}
		if err := c.try(ctx, t, trial, w); err != nil {
			return fmt.Errorf("%s: %w", trial.name, err)
		}
		if trial.rest && t.controllers != nil && !c.outcome.hasRested(t.Name) {
			if err := c.rest(ctx, t); err != nil {
				return err
			}
		}
	}
	if left := c.driver.Left(); left > 0 {
		return fmt.Errorf("%d volumes are left over", left)
	}
	return t.finish()
}

// hasRested reports whether the contender was looked at in an earlier round.
func (o outcome) hasRested(name string) bool {
	return slices.ContainsFunc(o.idle, func(r idleResult) bool { return r.contender == name })
}

// rest looks at the controllers while there is nothing to do.
func (c *contest) rest(ctx context.Context, t *team) (err error) {
	if _, err := c.Quiet(ctx); err != nil {
		return err
	}
	result, pid := idleResult{contender: t.Name}, t.controllers.Pid()
	if result.after, err = shareOf(ctx, pid, afterTime); err != nil {
		return err
	}
	if err := runner.Pause(ctx, calmDown-afterTime); err != nil {
		return err
	}
	if result.share, err = shareOf(ctx, pid, idleTime); err != nil {
		return err
	}
	used, err := runner.UsageOf(pid)
	result.memory = used.Memory
	c.outcome.idle = append(c.outcome.idle, result)
	return err
}

// shareOf is the part of a core that a process uses in the time that follows.
func shareOf(ctx context.Context, pid int, span time.Duration) (float64, error) {
	before, err := runner.UsageOf(pid)
	if err != nil {
		return 0, err
	}
	if err := runner.Pause(ctx, span); err != nil {
		return 0, err
	}
	after, err := runner.UsageOf(pid)
	return (after.CPU - before.CPU).Seconds() / span.Seconds(), err
}

// instantName is the name that the driver of the contest gives itself.
const instantName = "instant.bench.purser"

// instant is that driver. It has a node service, too.
type instant struct {
	*runner.Driver
	csi.UnimplementedNodeServer
}

func (*instant) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: "bench"}, nil
}
