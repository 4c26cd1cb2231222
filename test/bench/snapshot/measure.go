package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/test/bench/audited"
	"github.com/purser-csi/purser/test/e2e/audit"
)

var (
	lifted  = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}
	workers = []string{"--worker-threads=100"}
	// binding are the controllers that restored claims need, in both programs.
	binding = "--controllers=persistentvolume-binder-controller,persistentvolume-protection-controller," +
		"persistentvolumeclaim-protection-controller"
)

func half(ours bool, role, socket string) audited.Program {
	p := audited.Program{
		Name: "upstream-" + role, Account: role, Socket: socket, Args: append(slices.Clone(lifted), workers...),
	}
	if ours {
		p.Name, p.Args = "purser", append([]string{role}, workers...)
	}
	return p
}

// combinations are the two halves, a provisioner and a binder each.
func combinations(socket string) []audited.Contender {
	ourBinder := audited.Program{Name: "purser", Account: accountBinder, Args: []string{"controllers", binding}}
	stockBinder := audited.Program{
		Name: "kube-controller-manager", Account: accountBinder,
		Args: append([]string{"--leader-elect=false", "--secure-port=0", binding}, lifted...),
	}
	combine := func(name string, controller, sidecar, rest bool) audited.Contender {
		one := audited.Contender{Name: name, Programs: []audited.Program{
			half(controller, accountController, ""), half(sidecar, accountSidecar, socket),
			half(rest, accountProvisioner, socket),
		}}
		if rest {
			one.Programs = append(one.Programs, ourBinder)
		} else {
			one.Programs = append(one.Programs, stockBinder)
		}
		return one
	}
	return []audited.Contender{
		combine("ours", true, true, true),
		combine("our snapshot-controller, upstream's csi-snapshotter", true, false, true),
		combine("upstream's snapshot-controller, our csi-snapshotter", false, true, true),
		combine("upstream's, limits lifted", false, false, false),
	}
}

// patience is for one part of a burst.
const patience = 3 * time.Minute

// part is one of a burst: it makes something happen for each snapshot and waits for all.
type part struct {
	name string
	do   func(ctx context.Context, i int) error
	done func(ctx context.Context) (int, error) // how many are
}

func (c *contest) parts() []part {
	return []part{
		{"take", c.take, c.ready},
		{"restore", c.restore, c.bound},
		{"discard", c.discard, c.discarded},
		{"delete", c.remove, c.gone},
	}
}

// measure plays the bursts to one combination, and prints what they took.
func (c *contest) measure(ctx context.Context, one audited.Contender) (err error) {
	running, err := c.Launch(one)
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
	rates := map[string][]float64{}
	from, before, err := c.mark(ctx)
	if err != nil {
		return err
	}
	for range c.rounds {
		for _, p := range c.parts() {
			took, err := c.run(ctx, p)
			if err != nil {
				return err
			}
			rates[p.name] = append(rates[p.name], float64(c.snapshots)/took.Seconds())
		}
	}
	to, after, err := c.mark(ctx)
	if err != nil {
		return err
	}
	tally, err := c.Log.Between(from, to)
	if err != nil {
		return err
	}
	c.print(rates, tally, before, after)
	return nil
}

func (c *contest) mark(ctx context.Context) (audit.Mark, map[string]int, error) {
	m, err := c.Log.Mark(ctx)
	return m, c.driver.counted(), err
}

// warmUp is one burst of one snapshot, so that all programs are known to work.
func (c *contest) warmUp(ctx context.Context) error {
	few := *c
	few.snapshots = 1
	for _, p := range few.parts() {
		if _, err := few.run(ctx, p); err != nil {
			return fmt.Errorf("the programs do not work: %w", err)
		}
	}
	return nil
}

// each runs a function for each of the snapshots, some at once.
func (c *contest) each(ctx context.Context, do func(ctx context.Context, i int) error) error {
	all := make([]int, c.snapshots)
	for i := range all {
		all[i] = i
	}
	return audited.Each(ctx, all, do)
}

func (c *contest) run(ctx context.Context, p part) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began, n := time.Now(), 0
	if err := c.each(ctx, p.do); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (done bool, err error) {
		n, err = p.done(ctx)
		return n == c.snapshots, err
	})
	if err != nil {
		return 0, fmt.Errorf("%s: %d of %d: %w", p.name, n, c.snapshots, err)
	}
	return time.Since(began), nil
}

func snapshotOf(i int) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: audited.Namespace, Name: name("snapshot", i)},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new(class),
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new(name("source", i))},
		},
	}
}

func (c *contest) take(ctx context.Context, i int) error { return c.API.Create(ctx, snapshotOf(i)) }

func (c *contest) ready(ctx context.Context) (n int, err error) {
	var all snapshotv1.VolumeSnapshotList
	err = c.seen.List(ctx, &all)
	for i := range all.Items {
		if s := all.Items[i].Status; s != nil && s.ReadyToUse != nil && *s.ReadyToUse {
			n++
		}
	}
	return n, err
}

func (c *contest) restore(ctx context.Context, i int) error {
	claim := newClaim(name("restored", i))
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(names.SnapshotGroup), Kind: "VolumeSnapshot", Name: name("snapshot", i),
	}
	return c.API.Create(ctx, claim)
}

func (c *contest) bound(ctx context.Context) (n int, err error) {
	var all corev1.PersistentVolumeClaimList
	err = c.seen.List(ctx, &all)
	for i := range all.Items {
		if all.Items[i].Spec.DataSource != nil && all.Items[i].Status.Phase == corev1.ClaimBound {
			n++
		}
	}
	return n, err
}

// discard deletes a restored claim.
func (c *contest) discard(ctx context.Context, i int) error {
	return c.API.Delete(ctx, newClaim(name("restored", i)))
}

// discarded counts the restored volumes that are gone.
func (c *contest) discarded(ctx context.Context) (int, error) {
	var volumes corev1.PersistentVolumeList
	err := c.seen.List(ctx, &volumes)
	made := slices.DeleteFunc(volumes.Items, func(pv corev1.PersistentVolume) bool {
		return strings.HasPrefix(pv.Name, "source-")
	})
	return c.snapshots - len(made), err
}

func (c *contest) remove(ctx context.Context, i int) error { return c.API.Delete(ctx, snapshotOf(i)) }

// gone counts the snapshots of which nothing is left.
func (c *contest) gone(ctx context.Context) (int, error) {
	var snapshots snapshotv1.VolumeSnapshotList
	var contents snapshotv1.VolumeSnapshotContentList
	err := errors.Join(c.seen.List(ctx, &snapshots), c.seen.List(ctx, &contents))
	return c.snapshots - max(len(snapshots.Items), len(contents.Items)), err
}

// print prints rates, calls and requests.
func (c *contest) print(rates map[string][]float64, tally audit.Tally, before, after map[string]int) {
	all := float64(c.snapshots * c.rounds)
	for _, p := range c.parts() {
		slices.Sort(rates[p.name])
		fmt.Printf("  %-8s %6.0f/s, median of %.0f\n", p.name, rates[p.name][len(rates[p.name])/2], rates[p.name])
	}
	fmt.Print("  calls a snapshot  ")
	for _, method := range slices.Sorted(maps.Keys(after)) {
		fmt.Printf(" %s %.2f", method, float64(after[method]-before[method])/all)
	}
	fmt.Println()
	for _, account := range []string{accountController, accountSidecar, accountProvisioner, accountBinder} {
		fmt.Printf("  %s\n%s", account, audited.Requests(tally, c.snapshots*c.rounds, account))
	}
}
