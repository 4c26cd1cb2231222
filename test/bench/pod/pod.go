// Package pod measures what a volume adds to the start of a pod: pods without a volume, with a claim that
// is bound already, and with a new claim start in turn on a real kubelet with containerd, beside Purser's
// controllers and upstream's. The driver answers at once, so all that a pod waits is not the driver's.
package pod

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/test/bench/planes"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	driverName = "pod.example"
	className  = "pod"
	nodeName   = "node"
	account    = "programs"
)

// bench is the flags, and the times of the pods.
type bench struct {
	*runner.Run
	pods    int
	attach  bool         // volumes are attached, and a kubelet waits until it has reported them in use
	running runner.Times // pods by name
	gone    runner.Times
	bound   runner.Times // claims by name
	made    int
}

// Workload is the start of pods with and without a volume.
func Workload() runner.Workload {
	b := &bench{}
	return runner.Workload{
		Name: "pod", Summary: "what a volume adds to the start of a pod on a kubelet, as root",
		Flags: b.flags,
		Check: func(runner.Options) error {
			if b.pods < 1 {
				return fmt.Errorf("-pods=%d: must be at least 1", b.pods)
			}
			return nil
		},
		Cluster: func(config *cluster.Config) { config.Components = cluster.Components{cluster.Scheduler} },
		Driver:  func() scripted.Server { return newDriver() },
		Prepare: b.prepare, Play: b.play,
		Contenders: func() []runner.Contender {
			return planes.Contenders(account, planes.Lease{
				Duration: 15 * time.Second, Renew: 10 * time.Second, Retry: time.Second,
			})
		},
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	set.IntVar(&b.pods, "pods", 30, "pods of each kind, one after the other")
	set.BoolVar(&b.attach, "attach", true, "the driver's volumes are attached (attachRequired of its CSIDriver)")
}

// prepare creates the class and the driver, and observes pods and claims.
func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	immediate := storagev1.VolumeBindingImmediate
	return errors.Join(
		r.Administrators(ctx, account),
		r.Create(ctx,
			&storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName, VolumeBindingMode: &immediate,
			},
			&storagev1.CSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: driverName},
				Spec:       storagev1.CSIDriverSpec{AttachRequired: &b.attach},
			}),
		b.observe(ctx),
	)
}

// play starts the node, and measures each contender beside it.
func (b *bench) play(ctx context.Context, _ *runner.Run) (err error) {
	n, err := startNode(ctx, b.Run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.stop()) }()
	return b.Turns(ctx, runner.Part{Measure: b.measure})
}

// kinds of pods, in the order of their starts.
var kinds = []struct {
	name               string
	hasClaim, isNewOne bool
}{
	{name: "without a volume"},
	{name: "with a bound claim", hasClaim: true},
	{name: "with a new claim", hasClaim: true, isNewOne: true},
}

// patience bounds the start and the end of one pod.
const patience = 2 * time.Minute

// measure starts pods of each kind in turn, so that the speed of the machine changes for all alike.
func (b *bench) measure(ctx context.Context, _ *runner.Running) error {
	if _, err := b.startOne(ctx, true, true); err != nil { // the programs are started by then
		return err
	}
	took := make([][]time.Duration, len(kinds))
	for range b.pods {
		for i, kind := range kinds {
			one, err := b.startOne(ctx, kind.hasClaim, kind.isNewOne)
			if err != nil {
				return fmt.Errorf("pod %s: %w", kind.name, err)
			}
			took[i] = append(took[i], one)
		}
	}
	for i, kind := range kinds {
		fmt.Printf("  pod %-22s created to running    %s\n", kind.name, runner.Percentiles(took[i]))
		if kind.hasClaim {
			more := func(percent int) string {
				return runner.Short(runner.Percentile(took[i], percent) - runner.Percentile(took[0], percent))
			}
			fmt.Printf("    more than without a volume                  p50 %s p99 %s\n", more(50), more(99))
		}
	}
	return nil
}

// startOne starts one pod, and returns the time from its creation until it runs. Pod and claim are gone
// again then.
func (b *bench) startOne(ctx context.Context, hasClaim, isNew bool) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.made++
	name := types.NamespacedName{Namespace: runner.Namespace, Name: fmt.Sprintf("pod-%04d", b.made)}
	claim := runner.NewClaim(name.Namespace, name.Name, new(className))
	pod := newPod(name)
	if hasClaim {
		use(pod, claim.Name)
	}
	if hasClaim && !isNew {
		if err := b.API.Create(ctx, claim); err != nil {
			return 0, err
		}
		if err := await(ctx, &b.bound, claim.Name); err != nil {
			return 0, fmt.Errorf("the claim is not bound: %w", err)
		}
	}
	began := time.Now()
	if isNew {
		if err := b.API.Create(ctx, claim); err != nil {
			return 0, err
		}
	}
	if err := b.API.Create(ctx, pod); err != nil {
		return 0, err
	}
	if err := await(ctx, &b.running, pod.Name); err != nil {
		return 0, fmt.Errorf(
			"the pod does not run; the log of the kubelet is %s: %w", filepath.Join(b.Dir, "kubelet.log"), err,
		)
	}
	at, _ := b.running.At(pod.Name)
	if err := b.API.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return 0, err
	}
	if err := await(ctx, &b.gone, pod.Name); err != nil {
		return 0, fmt.Errorf("the pod is not gone: %w", err)
	}
	if hasClaim {
		err = b.API.Delete(ctx, claim)
	}
	return at.Sub(began), err
}

// await waits until a name has a time.
func await(ctx context.Context, times *runner.Times, name string) error {
	return runner.Until(ctx, 1, func(context.Context) (int, error) {
		if _, seen := times.At(name); seen {
			return 1, nil
		}
		return 0, nil
	})
}

// driver answers at once. A published volume is a folder.
type driver struct {
	*runner.Driver
	csi.UnimplementedNodeServer
}

func newDriver() driver {
	return driver{Driver: runner.NewDriver(driverName, csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)}
}
