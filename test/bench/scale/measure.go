package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/roles/process"
	"github.com/purser-csi/purser/test/bench/runner"
)

const (
	// patience bounds the measurement of one contender.
	patience = 20 * time.Minute
	// countTime is how long requests of the start are counted after the first served claim.
	countTime = 15 * time.Second
	// standbyTime is how long a standby without a page for its readiness may fill its caches.
	standbyTime = 20 * time.Second
)

// start is what the start of the programs takes.
type start struct {
	Claim      time.Duration `json:"claim"`      // until a claim that waited was bound
	Attachment time.Duration `json:"attachment"` // until its volume was attached
	Peak       int64         `json:"peakBytes"`
	Settled    int64         `json:"settledBytes"`
	CPU        time.Duration `json:"cpu"` // until settled
}

// measure plays everything to one contender.
func (b *bench) measure(ctx context.Context, one runner.Contender, at string) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	f.Contender = one.Name
	o, err := observe(ctx, b.Run)
	if err != nil {
		return f, err
	}
	if f.Requests, err = b.countStart(ctx, one, o); err != nil {
		return f, fmt.Errorf("start through the proxy: %w", err)
	}
	running, began, err := b.start(
		ctx, one, o, func(running *runner.Running) error { return b.profileStart(ctx, running, at) },
	)
	if err != nil {
		return f, fmt.Errorf("start: %w", err)
	}
	defer func() { running.Kill() }()
	if f.Start, err = b.settled(ctx, running, began); err != nil {
		return f, err
	}
	if err := b.profile(ctx, running, at, "heap", "/debug/pprof/heap?gc=1"); err != nil {
		return f, err
	}
	if err := b.measureBursts(ctx, o, running, at, &f); err != nil {
		return f, err
	}
	for _, end := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		next, err := b.Launch(ctx, running.Contender)
		if err != nil {
			return f, err
		}
		c, err := b.changeLeader(ctx, running, next, o, end)
		running.Kill()
		running = next
		if err != nil {
			return f, fmt.Errorf("leader change by %s: %w", end, err)
		}
		f.Changes = append(f.Changes, c)
	}
	return f, b.stop(ctx, running)
}

// started are the times of the first claim.
type started struct{ claim, attachment time.Duration }

// start starts the programs beside a claim and a pod that wait, and returns when both are served. The
// objects are gone again then. beside runs meanwhile; nil for nothing.
func (b *bench) start(
	ctx context.Context, one runner.Contender, o *observer, beside func(*runner.Running) error,
) (*runner.Running, started, error) {
	var s started
	if err := b.forgetLeases(ctx); err != nil {
		return nil, s, err
	}
	first, err := b.waiting(ctx)
	if err != nil {
		return nil, s, err
	}
	began := time.Now()
	running, err := b.Launch(ctx, one)
	if err != nil {
		return nil, s, err
	}
	var group errgroup.Group
	if beside != nil {
		group.Go(func() error { return beside(running) })
	}
	s.claim, s.attachment, err = b.served(ctx, o, began, first)
	if err = errors.Join(err, group.Wait()); err != nil {
		running.Kill()
	}
	return running, s, err
}

// served waits until a claim is bound and attached, and until it is gone again after that.
func (b *bench) served(
	ctx context.Context, o *observer, began time.Time, claim string,
) (bound, attached time.Duration, err error) {
	one := []string{claim}
	if err := o.await(ctx, "first claim", &o.bound, one); err != nil {
		return 0, 0, err
	}
	volume := o.volumeOf(claim)
	if err := o.await(ctx, "first attachment", &o.attached, []string{volume}); err != nil {
		return 0, 0, err
	}
	at, _ := o.bound.At(claim)
	listed, _ := o.attached.At(volume)
	if _, err := b.detach(ctx, o, one); err != nil {
		return 0, 0, err
	}
	_, err = b.delete(ctx, o, one)
	return at.Sub(began), listed.Sub(began), err
}

// countStart starts the programs behind a proxy, which counts their requests until a while after the first
// served claim.
func (b *bench) countStart(ctx context.Context, one runner.Contender, o *observer) ([]line, error) {
	config, err := b.Config(accountPrograms)
	if err != nil {
		return nil, err
	}
	w, err := newWire(config)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := b.WriteKubeconfig(accountWire, w.through(config)); err != nil {
		return nil, err
	}
	one.Programs = slices.Clone(one.Programs)
	for i := range one.Programs {
		one.Programs[i].Account = accountWire
	}
	running, _, err := b.start(ctx, one, o, nil)
	if err != nil {
		return nil, err
	}
	defer running.Kill()
	if err := runner.Pause(ctx, countTime); err != nil {
		return nil, err
	}
	lines := w.lines()
	return lines, b.stop(ctx, running)
}

// settled reads the memory when the programs have had time to return what the start has needed.
func (b *bench) settled(ctx context.Context, running *runner.Running, began started) (s start, err error) {
	s.Claim, s.Attachment = began.claim, began.attachment
	if err := runner.Pause(ctx, b.settle); err != nil {
		return s, err
	}
	spent, err := b.Spent(running.Processes)
	for _, p := range spent.Programs {
		s.Peak, s.Settled = s.Peak+p.Most, s.Settled+p.Now
	}
	s.CPU = spent.CPU()
	return s, err
}

// measureBursts plays the bursts, and takes a profile of the processor time of one more.
func (b *bench) measureBursts(ctx context.Context, o *observer, running *runner.Running, at string, f *figures) error {
	before, err := b.Spent(running.Processes)
	if err != nil {
		return err
	}
	var all []burst
	for range b.bursts {
		one, err := b.burst(ctx, o, b.claims, b.attachments)
		if err != nil {
			return fmt.Errorf("burst: %w", err)
		}
		all = append(all, one)
	}
	after, err := b.Spent(running.Processes)
	if err != nil {
		return err
	}
	spent, n := after.Since(before), time.Duration(b.bursts*b.claims)
	f.Burst, f.CPU = median(all), cpu{spent.CPU() / n, spent.APIServer / n, spent.Etcd / n}
	if b.profiles == "" {
		return nil
	}
	taken := make(chan error, 1)
	const seconds = 5
	go func() {
		taken <- b.profile(ctx, running, at, "cpu", fmt.Sprintf("/debug/pprof/profile?seconds=%d", seconds))
	}()
	_, err = b.burst(ctx, o, b.claims, b.attachments)
	if err != nil {
		return err
	}
	return <-taken
}

// profileStart saves profiles of the processor time of the start.
func (b *bench) profileStart(ctx context.Context, running *runner.Running, at string) error {
	const page = "/debug/pprof/profile?seconds=20"
	var err error
	for range 100 { // the page is not there at once
		if err = b.profile(ctx, running, at, "start", page); err == nil {
			return nil
		}
		if err := runner.Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	return err
}

// profile saves a profile of each of Purser's programs.
func (b *bench) profile(ctx context.Context, running *runner.Running, at, kind, page string) error {
	if b.profiles == "" {
		return nil
	}
	for i, p := range running.Processes {
		if p.Address == "" {
			continue
		}
		content, err := p.Get(ctx, page)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%s-%s-%s-%s", kind, running.Short, running.Programs[i].Args[0], at)
		if err := b.save(name, content); err != nil {
			return err
		}
	}
	return nil
}

// change is a change of the leader.
type change struct {
	Signal     string        `json:"signal"`
	Claim      time.Duration `json:"claim"`      // from the signal until a claim that was created then is bound
	Attachment time.Duration `json:"attachment"` // until its volume is attached
	AfterLease time.Duration `json:"afterLease"` // Claim without the wait for the last lease
}

// changeLeader ends the programs while others stand by.
func (b *bench) changeLeader(
	ctx context.Context, leader, next *runner.Running, o *observer, end syscall.Signal,
) (c change, err error) {
	if err := b.awaitStandby(ctx, next); err != nil {
		return c, err
	}
	leases, stop := b.watchLeases(ctx)
	defer stop()
	began := time.Now()
	for _, p := range leader.Processes {
		_ = syscall.Kill(p.Pid(), end) // fails only for one that has ended
	}
	first, err := b.waiting(ctx)
	if err != nil {
		return c, err
	}
	c.Signal = end.String()
	c.Claim, c.Attachment, err = b.served(ctx, o, began, first)
	for _, taken := range leases() {
		if at := taken.Sub(began); at < c.Claim {
			c.AfterLease = c.Claim - at
		}
	}
	return c, err
}

// waiting creates a claim and its pod, which wait for the programs.
func (b *bench) waiting(ctx context.Context) (name string, err error) {
	name = b.names(1)[0]
	if err := b.api.Create(ctx, runner.NewClaim(newNamespace, name, new(className)), byUser); err != nil {
		return name, err
	}
	return name, b.api.Create(ctx, podOf(name), byUser)
}

// awaitStandby returns when the programs have filled their caches.
func (b *bench) awaitStandby(ctx context.Context, next *runner.Running) error {
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) {
		for _, p := range next.Processes {
			if p.Address == "" {
				continue
			}
			if _, err := p.Get(ctx, "/readyz"); err != nil {
				return false, nil //nolint:nilerr // it is not ready
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("standby: %w", err)
	}
	return runner.Pause(ctx, min(standbyTime, b.settle))
}

// watchLeases records when leases get another holder. The function that it returns has these times.
func (b *bench) watchLeases(ctx context.Context) (taken func() []time.Time, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	holders, done := map[string]string{}, make(chan []time.Time, 1)
	look := func() (changed bool) {
		var list coordinationv1.LeaseList
		if b.API.List(ctx, &list, client.InNamespace(process.SystemNamespace)) != nil {
			return false
		}
		for i := range list.Items {
			lease := &list.Items[i]
			holder := ""
			if lease.Spec.HolderIdentity != nil {
				holder = *lease.Spec.HolderIdentity
			}
			before, known := holders[lease.Name]
			if holder != "" && !strings.HasPrefix(lease.Name, names.JournalLeasePrefix) {
				changed = changed || known && before != holder
				holders[lease.Name] = holder
			}
		}
		return changed
	}
	look()
	go func() {
		var all []time.Time
		for runner.Pause(ctx, 20*time.Millisecond) == nil {
			if look() {
				all = append(all, time.Now())
			}
		}
		done <- all
	}()
	return func() []time.Time { cancel(); return <-done }, cancel
}

// stop ends the programs in order. A program of upstream ends with an error.
func (b *bench) stop(ctx context.Context, running *runner.Running) error {
	for _, p := range running.Processes {
		_ = p.Stop()
	}
	return b.forgetLeases(ctx)
}

// forgetLeases deletes the leases of leader election, which a program of upstream does not release, and
// leaves the journals.
func (b *bench) forgetLeases(ctx context.Context) error {
	var leases coordinationv1.LeaseList
	if err := b.API.List(ctx, &leases, client.InNamespace(process.SystemNamespace)); err != nil {
		return err
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if strings.HasPrefix(lease.Name, names.JournalLeasePrefix) {
			continue
		}
		if err := client.IgnoreNotFound(b.API.Delete(ctx, lease)); err != nil {
			return err
		}
	}
	return nil
}
