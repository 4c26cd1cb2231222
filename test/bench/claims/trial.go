package claims

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
)

// trial is one thing that the contenders do.
type trial struct {
	name    string
	static  bool                               // the volumes are there before their claims
	rest    bool                               // and then look at how the contender does nothing
	goesOn  bool                               // with the claims of the trial before
	prepare func(context.Context, *work) error // nil for nothing
	do      func(context.Context, *work) (course, error)
	clear   func(context.Context, *work) error // nil when the next goes on, or nothing is left
}

// course is how a trial went.
type course struct {
	took  time.Duration   // from the first request to the last claim that is as it should be
	times []time.Duration // of each claim
}

const (
	trialOne     = "dynamic, one at a time"
	trialDynamic = "dynamic"
	trialDelete  = "delete"
)

func trials() []trial {
	return []trial{
		{name: trialOne, do: bindOneByOne, clear: clearDynamic},
		{name: trialDynamic, do: bindDynamic},
		{name: trialDelete, goesOn: true, do: giveUp},
		staticTrial("static, pre-bound", prebound),
		staticTrial("static, matched", free),
	}
}

// besideMany is what is done again when there is much.
func besideMany(pairs int) trial {
	return trial{
		name: fmt.Sprintf("dynamic, with %d bound", pairs), rest: true, do: bindDynamic, clear: clearDynamic,
	}
}

func bindDynamic(ctx context.Context, w *work) (course, error) { return w.bind(ctx, contestClass) }

// oneByOne is the part of the claims, 1 in so many, that are alone: how long a single
// one takes.
const oneByOne = 20

func bindOneByOne(ctx context.Context, w *work) (course, error) {
	w.claims, w.oneByOne = max(1, w.claims/oneByOne), true
	return w.bind(ctx, contestClass)
}

func clearDynamic(ctx context.Context, w *work) error {
	w.oneByOne = false
	_, err := giveUp(ctx, w)
	return err
}

func giveUp(ctx context.Context, w *work) (course, error) { return w.giveUp(ctx) }

func staticTrial(name string, kind volumeKind) trial {
	return trial{
		name: name, static: true,
		prepare: func(ctx context.Context, w *work) error { return w.volumes(ctx, kind) },
		do:      func(ctx context.Context, w *work) (course, error) { return w.bind(ctx, staticClass) },
		clear:   func(ctx context.Context, w *work) error { return w.clear(ctx) },
	}
}

// row is what a contender did in a trial.
type row struct {
	trial, contender, floor string
	claims                  int
	course
	asked audit.Tally     // by its controllers
	made  audit.Tally     // by its provisioner; nil where that is the same account
	calls scrape.Calls    // to the driver
	pace  pace            // beside the stock controllers
	spent [3]runner.Usage // by whom
}

// Who spends.
const (
	ours    = iota // the controllers, or the one program of the plane
	theirs         // the provisioner beside them
	servers        // the API server and its etcd
)

// try does one trial. What is still told of its preparation is waited for, since it is not a part
// of it.
func (c *contest) try(ctx context.Context, t *team, trial trial, w *work) error {
	if trial.prepare != nil {
		if err := trial.prepare(ctx, w); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
	}
	begin, err := c.Quiet(ctx)
	if err != nil {
		return err
	}
	before, err := c.look(t)
	if err != nil {
		return err
	}
	r := row{trial: trial.name, contender: t.Name, floor: t.floor}
	if trial.static {
		r.floor = nameFloor4
	}
	profiled := c.profile(ctx, t, trial)
	if r.course, err = t.run(ctx, trial, w); err != nil {
		return err
	}
	r.claims = w.claims
	end, err := c.Quiet(ctx)
	if err != nil {
		return err
	}
	after, err := c.look(t)
	if err != nil {
		return err
	}
	r.calls = after.calls.Since(before.calls)
	r.spend(t, after.Since(before.Spent))
	if err := r.count(c.Log, t.contender, begin, end); err != nil {
		return err
	}
	c.outcome.every = append(c.outcome.every, r)
	if err := <-profiled; err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if trial.clear == nil {
		return nil
	}
	return trial.clear(ctx, w)
}

// run does what the trial is about, and beside it what the team has to.
func (t *team) run(ctx context.Context, trial trial, w *work) (c course, err error) {
	if t.beside == nil || trial.goesOn {
		return trial.do(ctx, w)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return t.beside(ctx, w) })
	both.Go(func() (err error) { c, err = trial.do(ctx, w); return err })
	return c, both.Wait()
}

// count reads what was asked.
func (r *row) count(log *audit.Log, who contender, begin, end audit.Mark) error {
	all, err := log.Between(begin, end)
	if err != nil {
		return err
	}
	r.asked = all.Where(func(q audit.Request) bool { return who.accounts[q.User] })
	if len(who.accounts) > 0 {
		r.made = all.By(userProvisioner)
	}
	if (who.Name == nameStock || who.paceOnly) && r.trial == trialDynamic {
		r.pace, err = paceOf(log, begin, end)
	}
	return err
}

// spend divides the usage between the controllers, the provisioner and the servers.
func (r *row) spend(t *team, spent runner.Spent) {
	r.spent[servers].CPU = spent.APIServer + spent.Etcd
	for i, used := range spent.Programs {
		if t.processes[i] == t.controllers {
			r.spent[ours] = used
		} else {
			r.spent[theirs] = used
		}
	}
}

// sight is what was done and spent at one moment.
type sight struct {
	runner.Spent
	calls scrape.Calls
}

func (c *contest) look(t *team) (s sight, err error) {
	s.calls = c.Calls()
	s.Spent, err = c.Spent(t.processes)
	return s, err
}

// profiledRate is the expected number of claims a second, since the duration of a profile is set
// before it starts.
const profiledRate = 100

// profile has the API server and the programs of a contender profiled for about as long as a trial
// takes, where that was asked for.
func (c *contest) profile(ctx context.Context, t *team, trial trial) <-chan error {
	done := make(chan error, 1)
	if c.profiles == "" {
		done <- nil
		return done
	}
	type source struct {
		at     string
		client *http.Client
	}
	programs := map[string]source{}
	if api, err := rest.HTTPClientFor(c.Cluster.RESTConfig()); err == nil {
		programs["server"] = source{c.Cluster.RESTConfig().Host, api}
	}
	if t.provisioner != nil {
		programs["provisioner"] = source{"http://" + t.provisioner.Address, http.DefaultClient}
	}
	if t.controllers != nil && t.Name == nameOurs {
		programs["controllers"] = source{"http://" + t.controllers.Address, http.DefaultClient}
	}
	go func() {
		group, ctx := errgroup.WithContext(ctx)
		for name, program := range programs {
			group.Go(func() error {
				url := fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", program.at, max(1, c.claims/profiledRate))
				content, err := runner.Get(ctx, program.client, url)
				if err != nil {
					return err
				}
				file := strings.ReplaceAll(strings.Join([]string{t.Short, trial.name, name}, "-"), " ", "-")
				return os.WriteFile(filepath.Join(c.profiles, file), content, 0o600)
			})
		}
		done <- group.Wait()
	}()
	return done
}
