package resize

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "resize.example"
	account    = "csi-resizer"
	class      = "grows"
)

// bench is the driver and the claims.
type bench struct {
	*runner.Run
	claims, idle int
	made         int          // claims so far
	grown        runner.Times // a claim was seen with 2Gi
}

// Workload is the expansion of claims.
func Workload() runner.Workload {
	b := &bench{}
	return runner.Workload{
		Name: "resize", Summary: "expand claims at once, ours and upstream's csi-resizer", Rounds: 3,
		Flags: b.flags, Prepare: b.prepare,
		Driver: func() scripted.Server {
			return runner.NewDriver(driverName, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
		},
		Contenders: contenders, Measure: b.measure,
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	set.IntVar(&b.claims, "claims", 200, "claims that expand at once")
	set.IntVar(&b.idle, "idle", 10, "claims that expand one after the other")
}

// contenders have the workers of a large cluster.
func contenders() []runner.Contender {
	const workers = "--workers=100"
	return []runner.Contender{
		{Name: "ours", Programs: []runner.Program{
			{Name: "purser", Args: []string{"csi-resizer", workers}, Account: account, Socket: true},
		}},
		{Name: "upstream, limits lifted", Baseline: true, Programs: []runner.Program{{
			Name: "upstream-csi-resizer", Account: account, Socket: true,
			Args: []string{workers, "--kube-api-qps=10000", "--kube-api-burst=10000"},
		}}},
	}
}

func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := r.Administrators(ctx, account); err != nil {
		return err
	}
	if _, err := runner.Observe(ctx, r.Cache, &corev1.PersistentVolumeClaim{}, b.saw, nil); err != nil {
		return err
	}
	return r.Create(ctx,
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: driverName, AllowVolumeExpansion: new(true),
		},
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverName}})
}

const twoGibibytes = 2 << 30

// saw records that an expansion is over.
func (b *bench) saw(claim *corev1.PersistentVolumeClaim) {
	if claim.Status.Capacity.Storage().Value() >= twoGibibytes && len(claim.Status.Conditions) == 0 {
		b.grown.Add(claim.Name)
	}
}

// patience is for one contender.
const patience = 5 * time.Minute

// measure has claims expand one after the other, then all at once.
func (b *bench) measure(ctx context.Context, _ *runner.Run, one *runner.Running) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := b.grow(ctx, 1); err != nil { // it is known to work
		return fmt.Errorf("warm up: %w", err)
	}
	var waits []time.Duration
	for range b.idle {
		took, err := b.grow(ctx, 1)
		if err != nil {
			return err
		}
		waits = append(waits, took...)
	}
	fmt.Printf("  idle, one claim after the other    p50 %s\n", runner.Short(runner.Percentile(waits, 50)))
	return b.burst(ctx, one)
}

// burst has all claims expand at once, and counts.
func (b *bench) burst(ctx context.Context, one *runner.Running) error {
	names, err := b.pairs(ctx, b.claims)
	if err != nil {
		return err
	}
	var waits []time.Duration
	var took time.Duration
	counted, err := b.Count(ctx, one, func() (err error) {
		began := time.Now()
		waits, err = b.growAll(ctx, names)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	rate := float64(b.claims) / took.Seconds()
	fmt.Printf("  %d claims at once                 %.0f/s %s\n", b.claims, rate, runner.Percentiles(waits))
	fmt.Printf("  ControllerExpandVolume a claim     %.2f\n", float64(counted.Calls["ControllerExpandVolume"])/float64(b.claims))
	fmt.Print(runner.Requests(counted.Requests, b.claims, account))
	b.Rate(one, "expand", rate)
	return nil
}

func (b *bench) pairs(ctx context.Context, n int) (names []string, err error) {
	for range n {
		b.made++
		names = append(names, fmt.Sprintf("claim-%05d", b.made))
	}
	return names, b.Pairs(ctx, driverName, class, names)
}

func (b *bench) grow(ctx context.Context, n int) ([]time.Duration, error) {
	names, err := b.pairs(ctx, n)
	if err != nil {
		return nil, err
	}
	return b.growAll(ctx, names)
}

// growAll requests 2Gi for each claim, and returns how long each took.
func (b *bench) growAll(ctx context.Context, names []string) (took []time.Duration, err error) {
	var asked runner.Times
	err = runner.Each(ctx, names, func(ctx context.Context, name string) error {
		asked.Add(name)
		claim := runner.NewClaim(runner.Namespace, name, nil)
		edit := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		return b.API.Patch(ctx, claim, client.RawPatch(types.MergePatchType, edit))
	})
	if err != nil {
		return nil, err
	}
	err = runner.Until(ctx, len(names), func(context.Context) (int, error) {
		took = b.grown.Since(&asked)
		return len(took), nil
	})
	return took, err
}
