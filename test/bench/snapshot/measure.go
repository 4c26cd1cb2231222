package snapshot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
)

// patience is for one part of a burst.
const patience = 3 * time.Minute

// part is one of a burst: it makes something happen for each snapshot and waits for all.
type part struct {
	name string
	do   func(ctx context.Context, i int) error
	done func(ctx context.Context) (int, error) // how many are
}

func (b *bench) parts() []part {
	return []part{
		{"take", b.take, b.ready},
		{"restore", b.restore, b.bound},
		{"discard", b.discard, b.discarded},
		{"delete", b.remove, b.gone},
	}
}

// measure plays one burst to one combination, and prints what it took.
func (b *bench) measure(ctx context.Context, _ *runner.Run, one *runner.Running) error {
	if err := b.warmUp(ctx); err != nil {
		return err
	}
	counted, err := b.Count(ctx, one, func() error {
		for _, p := range b.parts() {
			took, err := b.play(ctx, p)
			if err != nil {
				return err
			}
			rate := float64(b.snapshots) / took.Seconds()
			fmt.Printf("  %-8s %6.0f/s\n", p.name, rate)
			b.Rate(one, p.name, rate)
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Print("  calls a snapshot  ")
	for _, method := range []string{"CreateSnapshot", "CreateVolume", "DeleteSnapshot", "DeleteVolume"} {
		fmt.Printf(" %s %.2f", method, float64(counted.Calls[method])/float64(b.snapshots))
	}
	fmt.Println()
	for _, account := range []string{accountController, accountSidecar, accountProvisioner, accountBinder} {
		fmt.Printf("  %s\n%s", account, runner.Requests(counted.Requests, b.snapshots, account))
	}
	return nil
}

// warmUp is one burst of one snapshot, so that all programs are known to work.
func (b *bench) warmUp(ctx context.Context) error {
	few := *b
	few.snapshots = 1
	for _, p := range few.parts() {
		if _, err := few.play(ctx, p); err != nil {
			return fmt.Errorf("the programs do not work: %w", err)
		}
	}
	return nil
}

func (b *bench) play(ctx context.Context, p part) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := make([]int, b.snapshots)
	for i := range all {
		all[i] = i
	}
	began := time.Now()
	if err := runner.Each(ctx, all, p.do); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	if err := runner.Until(ctx, b.snapshots, p.done); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	return time.Since(began), nil
}

func snapshotOf(i int) *snapshotv1.VolumeSnapshot {
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: name("snapshot", i)},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: new(class),
			Source:                  snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: new(name("source", i))},
		},
	}
}

func (b *bench) take(ctx context.Context, i int) error { return b.API.Create(ctx, snapshotOf(i)) }

func (b *bench) ready(ctx context.Context) (n int, err error) {
	var all snapshotv1.VolumeSnapshotList
	err = b.Cache.List(ctx, &all)
	for i := range all.Items {
		if s := all.Items[i].Status; s != nil && s.ReadyToUse != nil && *s.ReadyToUse {
			n++
		}
	}
	return n, err
}

func (b *bench) restore(ctx context.Context, i int) error {
	claim := runner.NewClaim(runner.Namespace, name("restored", i), new(class))
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(names.SnapshotGroup), Kind: "VolumeSnapshot", Name: name("snapshot", i),
	}
	return b.API.Create(ctx, claim)
}

func (b *bench) bound(ctx context.Context) (n int, err error) {
	var all corev1.PersistentVolumeClaimList
	err = b.Cache.List(ctx, &all)
	for i := range all.Items {
		if all.Items[i].Spec.DataSource != nil && all.Items[i].Status.Phase == corev1.ClaimBound {
			n++
		}
	}
	return n, err
}

// discard deletes a restored claim.
func (b *bench) discard(ctx context.Context, i int) error {
	return b.API.Delete(ctx, runner.NewClaim(runner.Namespace, name("restored", i), new(class)))
}

// discarded counts the restored volumes that are gone.
func (b *bench) discarded(ctx context.Context) (int, error) {
	var volumes corev1.PersistentVolumeList
	err := b.Cache.List(ctx, &volumes)
	made := slices.DeleteFunc(volumes.Items, func(pv corev1.PersistentVolume) bool {
		return strings.HasPrefix(pv.Name, "source-")
	})
	return b.snapshots - len(made), err
}

func (b *bench) remove(ctx context.Context, i int) error { return b.API.Delete(ctx, snapshotOf(i)) }

// gone counts the snapshots of which nothing is left.
func (b *bench) gone(ctx context.Context) (int, error) {
	var snapshots snapshotv1.VolumeSnapshotList
	var contents snapshotv1.VolumeSnapshotContentList
	err := errors.Join(b.Cache.List(ctx, &snapshots), b.Cache.List(ctx, &contents))
	return b.snapshots - max(len(snapshots.Items), len(contents.Items)), err
}
