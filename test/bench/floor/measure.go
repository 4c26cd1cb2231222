package floor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
)

// turn is one contender in one round.
type turn struct {
	*bench
	running *runner.Running
	bare    *bare // nil for programs
	round   int
	made    int // items so far
}

// patience is for one operation of all items.
const patience = 3 * time.Minute

func (b *bench) play(ctx context.Context, _ *runner.Run) error {
	if err := b.Turns(ctx, runner.Part{Name: "operations", Measure: b.measure}); err != nil || b.sizes.pairs == 0 ||
		!b.selects(rowMemory) {
		return err
	}
	return b.memory(ctx)
}

// measure plays all rows to one contender.
func (b *bench) measure(ctx context.Context, running *runner.Running) error {
	b.turns[running.Short]++
	t := &turn{bench: b, running: running, round: b.turns[running.Short]}
	if isBare(running.Contender) {
		config, err := b.Config(accountBare)
		if err != nil {
			return err
		}
		api, err := client.New(config, client.Options{Scheme: b.API.Scheme()})
		if err != nil {
			return err
		}
		t.bare = newBare(api, formOf(running.Contender))
	}
	if err := t.ownVolumes(ctx); err != nil {
		return err
	}
	return t.sharedVolumes(ctx)
}

// all is the number of items: one for the programs to be known to work, single ones, and the burst.
func (t *turn) all() int { return 1 + t.sizes.idle + t.sizes.volumes }

// ownVolumes measures provision and delete.
func (t *turn) ownVolumes(ctx context.Context) error {
	if !t.measures(opProvision) && !t.measures(opDelete) {
		return nil
	}
	items := t.items(t.all())
	return t.steps(ctx, items, opProvision, opDelete)
}

// sharedVolumes measures all other rows on one set of volumes.
func (t *turn) sharedVolumes(ctx context.Context) error {
	var rows []string
	if t.measures(opExpand) {
		rows = append(rows, opExpand)
	}
	if t.measures(opModify) {
		rows = append(rows, opModify)
	}
	if t.measures(opAttach) || t.measures(opDetach) {
		rows = append(rows, opAttach, opDetach)
	}
	if t.measures(opSnapshot) || t.measures(opRestore) || t.measures(opDeleteSnapshot) {
		rows = append(rows, opSnapshot)
		if t.measures(opRestore) {
			rows = append(rows, opRestore)
		}
		rows = append(rows, opDeleteSnapshot)
	}
	if len(rows) == 0 {
		return nil
	}
	items := t.items(t.all())
	if _, err := t.burst(ctx, find(opProvision), items); err != nil {
		return err
	}
	if err := t.steps(ctx, items, rows...); err != nil {
		return err
	}
	if slices.Contains(rows, opRestore) {
		for _, it := range items {
			items = append(items, &item{name: restored + it.name, pair: it.restored})
		}
	}
	_, err := t.burst(ctx, find(opDelete), items)
	return err
}

func find(name string) operation {
	all := operations()
	return all[slices.IndexFunc(all, func(o operation) bool { return o.name == name })]
}

// measures reports whether the row is selected and the contender has the programs for it.
func (t *turn) measures(row string) bool {
	return t.selects(row) && lacks(t.running.Contender, find(row)) == ""
}

// steps plays operations, and measures those that are selected.
func (t *turn) steps(ctx context.Context, items []*item, rows ...string) error {
	for _, row := range rows {
		var err error
		o := find(row)
		if t.measures(row) {
			err = t.row(ctx, o, items)
		} else {
			_, err = t.burst(ctx, o, items)
		}
		if err != nil {
			return fmt.Errorf("%s, round %d: %w", row, t.round, err)
		}
	}
	return nil
}

// row measures one operation: a first item that does not count, single ones, and the rest at once.
func (t *turn) row(ctx context.Context, o operation, items []*item) error {
	if _, err := t.burst(ctx, o, items[:1]); err != nil {
		return fmt.Errorf("the first one: %w", err)
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	f := figure{row: o.name, contender: t.running.Short, round: t.round}
	for _, it := range items[1 : 1+t.sizes.idle] {
		if err := runner.Pause(ctx, between); err != nil {
			return err
		}
		waited, err := t.single(ctx, o, it)
		if err != nil {
			return fmt.Errorf("a single one: %w", err)
		}
		f.idle = append(f.idle, waited)
	}
	if t.bare != nil {
		f.writes, t.bare.times = t.bare.times, nil
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	if err := t.counted(ctx, o, items[1+t.sizes.idle:], &f); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "  %-16s %7.0f/s, idle %s\n", o.name, f.rate, runner.Short(runner.Percentile(f.idle, 50)))
	t.figures = append(t.figures, f)
	return nil
}

// pause is the time before a measurement in later rounds, in which the events of the last one are written.
const pause = 300 * time.Millisecond

// between is the time before a single operation, in which the programs finish the one before it.
const between = 30 * time.Millisecond

// settle waits until the programs have no work left. The first round waits for the last event, so that
// each request is counted for its own row.
func (t *turn) settle(ctx context.Context) error {
	if t.counts() {
		_, err := t.Quiet(ctx)
		return err
	}
	return runner.Pause(ctx, pause)
}

// counts reports whether requests are counted in this round.
func (t *turn) counts() bool { return t.round == 1 && t.bare == nil }

// counted measures a burst.
func (t *turn) counted(ctx context.Context, o operation, items []*item, f *figure) error {
	begin, err := t.Log.Mark(ctx)
	if err != nil {
		return err
	}
	watched, err := t.watched(ctx)
	if err != nil {
		return err
	}
	profiled := t.profile(ctx, o.name)
	before, err := t.Spent(t.running.Processes)
	if err != nil {
		return err
	}
	took, err := t.burst(ctx, o, items)
	if err != nil {
		return fmt.Errorf("%d at once: %w", len(items), err)
	}
	after, err := t.Spent(t.running.Processes)
	if err != nil {
		return err
	}
	if err := <-profiled; err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	spent, n := after.Since(before), float64(len(items))
	f.rate = n / took.Seconds()
	f.programs = milliseconds(spent.CPU()) / n
	f.server = milliseconds(spent.APIServer+spent.Etcd) / n
	if t.round > 1 {
		return nil
	}
	if t.bare == nil {
		if _, err := t.Quiet(ctx); err != nil {
			return err
		}
	}
	then, err := t.watched(ctx)
	if err != nil {
		return err
	}
	f.WatchBytes = then.since(watched, t.resting) / n
	end, err := t.Log.Mark(ctx)
	if err != nil {
		return err
	}
	all, err := t.Log.Between(begin, end)
	if err == nil {
		f.count(all.Where(t.isOwn), n)
	}
	return err
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// isOwn reports whether a request is one of the contender's.
func (t *turn) isOwn(r audit.Request) bool {
	if t.bare != nil {
		return r.User == runner.User(accountBare)
	}
	return slices.ContainsFunc(
		t.running.Programs, func(p runner.Program) bool { return r.User == runner.User(p.Account) },
	)
}

// single measures one operation in a cluster without other work, from the response to the user's
// request to the watch that shows the end.
func (t *turn) single(ctx context.Context, o operation, it *item) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := o.ask(t, ctx, it); err != nil {
		return 0, err
	}
	var asked runner.Times
	asked.Add(it.name)
	if t.bare != nil {
		t.bare.time(true)
		defer t.bare.time(false)
		if err := o.write(t.bare, ctx, it); err != nil {
			return 0, err
		}
	}
	if err := t.await(ctx, o, []*item{it}); err != nil {
		return 0, err
	}
	took, _ := t.ends.of[o.name].After(it.name, &asked, it.name)
	return max(took, 0), nil
}

// burst has users ask for all items at once, and returns how long it took until the last one was done.
// The bare client begins with an item when the user's request for it has returned.
func (t *turn) burst(ctx context.Context, o operation, items []*item) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	asked := make(chan *item, len(items))
	both, inside := errgroup.WithContext(ctx)
	began := time.Now()
	both.Go(func() error {
		defer close(asked)
		return t.each(inside, items, func(it *item) error {
			err := o.ask(t, inside, it)
			asked <- it
			return err
		})
	})
	if t.bare != nil {
		for range t.sizes.workers {
			both.Go(func() error {
				for it := range asked {
					if err := o.write(t.bare, inside, it); err != nil {
						return err
					}
				}
				return nil
			})
		}
	}
	if err := both.Wait(); err != nil {
		return 0, err
	}
	if err := t.await(ctx, o, items); err != nil {
		return 0, err
	}
	last := began
	for _, it := range items {
		if at, ok := t.ends.of[o.name].At(it.name); ok && at.After(last) {
			last = at
		}
	}
	return last.Sub(began), nil
}

// each calls a function for all items, with as many calls at once as there are workers.
func (t *turn) each(ctx context.Context, items []*item, do func(*item) error) error {
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(t.sizes.workers)
	for _, it := range items {
		group.Go(func() error { return do(it) })
	}
	return group.Wait()
}

// await waits until the operation is over for all items.
func (t *turn) await(ctx context.Context, o operation, items []*item) error {
	done := t.ends.of[o.name]
	return runner.Until(ctx, len(items), func(context.Context) (n int, err error) {
		for _, it := range items {
			if _, is := done.At(it.name); is {
				n++
			}
		}
		return n, nil
	})
}
