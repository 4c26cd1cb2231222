package attach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
)

// shippedVolumes are fewer: at 2 in a second, 500 would take four minutes.
const shippedVolumes = 40

// patience is for one part of a measurement.
const patience = 6 * time.Minute

// measure plays everything to one combination, and prints what it took.
func (b *bench) measure(ctx context.Context, one *runner.Running) (err error) {
	for _, part := range []func(context.Context, *runner.Running) error{b.warmUp, b.idle, b.moves, b.burst, b.starved} {
		if err := inTime(ctx, one, part); err != nil {
			return err
		}
	}
	return nil
}

func inTime(ctx context.Context, one *runner.Running, part func(context.Context, *runner.Running) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return part(ctx, one)
}

// warmUp attaches and detaches one volume, so that all programs are known to work.
func (b *bench) warmUp(ctx context.Context, _ *runner.Running) error {
	one, err := b.volumes(ctx, "warm-", 1)
	if err != nil {
		return err
	}
	if _, err := b.roundTrip(ctx, one); err != nil {
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

func (b *bench) roundTrip(ctx context.Context, all []placed) (t took, err error) {
	began := time.Now()
	if err := b.start(ctx, all); err != nil {
		return t, err
	}
	t.created = time.Since(began)
	if t.attach, err = b.observer.untilAttached(ctx, all...); err != nil {
		return t, fmt.Errorf("attach: %w", err)
	}
	t.allAttach, began = time.Since(began), time.Now()
	if err := b.end(ctx, all); err != nil {
		return t, err
	}
	t.deleted = time.Since(began)
	if t.detach, err = b.observer.untilDetached(ctx, all...); err != nil {
		return t, fmt.Errorf("detach: %w", err)
	}
	t.allDetach = time.Since(began)
	return t, nil
}

// idle attaches and detaches one volume after the other.
func (b *bench) idle(ctx context.Context, _ *runner.Running) error {
	var attach, detach []time.Duration
	all, err := b.volumes(ctx, "idle-", b.count.idle)
	if err != nil {
		return err
	}
	for _, p := range all {
		t, err := b.roundTrip(ctx, []placed{p})
		if err != nil {
			return fmt.Errorf("idle: %w", err)
		}
		attach, detach = append(attach, t.attach...), append(detach, t.detach...)
	}
	fmt.Printf("  idle, one volume after the other   attach %s   detach %s\n",
		runner.Percentiles(attach), runner.Percentiles(detach))
	return nil
}

// moves has pods go to another node: the time from the report that the volume is unused to the list
// of the new node.
func (b *bench) moves(ctx context.Context, _ *runner.Running) error {
	all, err := b.volumes(ctx, "move-", b.count.moves)
	if err != nil {
		return err
	}
	var waited []time.Duration
	for _, p := range all {
		to := placed{b.nodes[(slices.Index(b.nodes, p.node)+1)%len(b.nodes)], p.handle}
		if err := b.move(ctx, p, to); err != nil {
			return fmt.Errorf("move: %w", err)
		}
		took, _ := b.observer.listed.After(at(to.node, to.handle), &b.observer.freed, at(p.node, p.handle))
		waited = append(waited, took)
		if err := b.detach(ctx, to); err != nil {
			return err
		}
	}
	fmt.Printf("  pod moved, from unused to listed   %s\n", runner.Percentiles(waited))
	return nil
}

// move has a pod on one node, and then another pod with its volume on another node.
func (b *bench) move(ctx context.Context, from, to placed) error {
	if _, err := b.attach(ctx, from); err != nil {
		return err
	}
	if err := b.start(ctx, []placed{to}); err != nil {
		return err
	}
	if err := b.end(ctx, []placed{from}); err != nil {
		return err
	}
	_, err := b.observer.untilAttached(ctx, to)
	return err
}

// attach creates the pods of volumes and waits until the volumes are attached.
func (b *bench) attach(ctx context.Context, all ...placed) ([]time.Duration, error) {
	if err := b.start(ctx, all); err != nil {
		return nil, err
	}
	return b.observer.untilAttached(ctx, all...)
}

// detach deletes the pods of volumes and waits until the volumes are detached.
func (b *bench) detach(ctx context.Context, all ...placed) error {
	if err := b.end(ctx, all); err != nil {
		return err
	}
	_, err := b.observer.untilDetached(ctx, all...)
	return err
}

// burst attaches and detaches many volumes at once, and counts the requests and calls.
func (b *bench) burst(ctx context.Context, one *runner.Running) error {
	n := b.count.volumes
	if one.Name == stockShipped {
		n = min(n, shippedVolumes)
	}
	all, err := b.volumes(ctx, "many-", n)
	if err != nil {
		return err
	}
	var t took
	counted, err := b.Count(ctx, one, func() (err error) {
		t, err = b.roundTrip(ctx, all)
		return err
	})
	if err != nil {
		return fmt.Errorf("%d volumes: %w", n, err)
	}
	fmt.Printf("  %d volumes on %d nodes             %s   %s\n", n, len(b.nodes),
		pace("attach", n, t.allAttach, t.attach), pace("detach", n, t.allDetach, t.detach))
	fmt.Printf("  of it for the pods alone           created in %s of %s, deleted in %s of %s\n",
		runner.Short(t.created), runner.Short(t.allAttach), runner.Short(t.deleted), runner.Short(t.allDetach))
	call := func(method string) float64 { return float64(counted.Calls[method]) / float64(n) }
	fmt.Printf("  calls a volume                     publish %.2f, unpublish %.2f\n",
		call("ControllerPublishVolume"), call("ControllerUnpublishVolume"))
	fmt.Print(runner.Requests(counted.Requests, n, accountController, accountAttacher))
	fmt.Print(counted.Spent.PerVolume(n, counted.Requests.All(), t.allAttach+t.allDetach))
	b.Rate(one, "attach", float64(n)/t.allAttach.Seconds())
	b.Rate(one, "detach", float64(n)/t.allDetach.Seconds())
	return b.events(ctx, all)
}

// pace says how many volumes were done in a second, and how long one took.
func pace(what string, n int, all time.Duration, each []time.Duration) string {
	return fmt.Sprintf("%s %.0f/s %s", what, float64(n)/all.Seconds(), runner.Percentiles(each))
}

// slowDetaches are in flight when one volume is attached.
const slowDetaches = 60

// starved attaches one volume while the driver works on slow detaches.
func (b *bench) starved(ctx context.Context, one *runner.Running) error {
	if one.Name == stockShipped {
		return nil // its limits alone make it wait
	}
	slow, err := b.volumes(ctx, slowPrefix, slowDetaches)
	if err != nil {
		return err
	}
	fast, err := b.volumes(ctx, "fast-", 1)
	if err != nil {
		return err
	}
	if _, err := b.attach(ctx, slow...); err != nil {
		return err
	}
	if err := b.end(ctx, slow); err != nil {
		return err
	}
	if err := runner.Pause(ctx, 2*time.Second); err != nil { // the attacher begins to detach
		return err
	}
	waited, err := b.attach(ctx, fast...)
	if err != nil {
		return err
	}
	fmt.Printf("  attach behind %d slow detaches     %s\n", slowDetaches, runner.Short(waited[0]))
	if err := b.detach(ctx, fast...); err != nil {
		return err
	}
	_, err = b.observer.untilDetached(ctx, slow...)
	return err
}

// eventsAfter is how long the events of attaches may take: those of ours wait for other writes, half
// a minute at most.
const eventsAfter = 45 * time.Second

// events waits until there is an event about the attach of each pod.
func (b *bench) events(ctx context.Context, all []placed) error {
	began := time.Now()
	for {
		var list corev1.EventList
		err := b.API.List(ctx, &list, client.InNamespace(runner.Namespace), client.MatchingFields{"reason": "SuccessfulAttachVolume"})
		if err != nil {
			return err
		}
		have, count := map[string]bool{}, 0
		for i := range list.Items {
			have[list.Items[i].InvolvedObject.Name] = true
		}
		for _, p := range all {
			if have[podOf(p).Name] {
				count++
			}
		}
		if took := time.Since(began); count == len(all) || took > eventsAfter {
			fmt.Printf("  events of attaches                 %d of %d, the last one within %s of the last detach\n",
				count, len(all), took.Round(time.Second))
			return nil
		}
		if err := runner.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

const (
	settle = 20 * time.Second // for the first list, and a look at each volume
	watch  = time.Minute      // over which the processor time of an idle combination is taken
)

// present attaches volumes, and has each combination start beside them, with nothing to do.
func (b *bench) present(ctx context.Context) error {
	ours, err := b.Launch(ctx, combinations()[0])
	if err != nil {
		return err
	}
	volumes, err := b.volumes(ctx, "here-", b.count.present)
	if err == nil {
		_, err = b.attach(ctx, volumes...)
	}
	ours.Kill()
	if err != nil {
		return err
	}
	fmt.Printf("%d VolumeAttachments on %d nodes, nothing to do\n", len(volumes), len(b.nodes))
	// The limits of requests change nothing here.
	limited := func(one runner.Contender) bool { return one.Name == stockShipped }
	return b.Turns(ctx, runner.Part{Name: "idle", Skips: limited, Measure: b.idleBeside})
}

// idleBeside prints the memory and the idle processor time of one combination.
func (b *bench) idleBeside(ctx context.Context, one *runner.Running) error {
	if err := runner.Pause(ctx, settle); err != nil {
		return err
	}
	counted, err := b.Count(ctx, one, func() error { return runner.Pause(ctx, watch) })
	if err != nil {
		return err
	}
	spent := counted.Spent
	var parts []string
	var resident int64
	for i, p := range spent.Programs {
		resident += p.Now
		parts = append(parts, fmt.Sprintf("%s %d MB", one.Programs[i].Account, p.Now>>20))
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / watch.Seconds() }
	fmt.Printf("  %-36s memory %4d MB (%s)   idle processor %.2f %%, API server %.2f %%\n", one.Name, resident>>20,
		strings.Join(parts, ", "), percent(spent.CPU()), percent(spent.APIServer))
	return nil
}
