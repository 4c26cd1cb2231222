package capacity

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
	"github.com/purser-csi/purser/test/scripted"
)

const (
	namespace = "storage"
	classes   = 2
	queue     = "csistoragecapacity"
)

// bench is the driver and the flags.
type bench struct {
	*runner.Run
	nodes    int
	poll     time.Duration // --capacity-poll-interval of the provisioners
	polls    int           // that are measured
	patience time.Duration // for the first publication
	driver   *driver
}

// Workload is the publication of storage capacities.
func Workload() runner.Workload {
	b := &bench{driver: newDriver()}
	return runner.Workload{
		Name: "capacity", Summary: "publish the capacities of 2000 nodes, ours and upstream's csi-provisioner",
		Flags: b.flags, Driver: func() scripted.Server { return b.driver }, Prepare: b.fill,
		Contenders: b.contenders, Measure: b.measure,
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	set.IntVar(&b.nodes, "nodes", 2000, "nodes, each a topology segment of its own")
	set.DurationVar(&b.poll, "poll", 30*time.Second, "interval of the polls")
	set.IntVar(&b.polls, "polls", 10, "how many of them are measured")
	set.DurationVar(&b.driver.delay, "delay", time.Millisecond, "how long the driver takes for a response")
	set.DurationVar(&b.patience, "patience", 2*time.Minute,
		"for the first publication; what is not published by then is extrapolated")
}

// contenders are the provisioners, with the flags in which they differ. Ours has its defaults.
func (b *bench) contenders() []runner.Contender {
	provisioner := func(name, program string, args ...string) runner.Contender {
		return runner.Contender{Name: name, Programs: []runner.Program{{
			Name: program, Socket: true, HTTP: true,
			Args: append(args, "--feature-gates=Topology=true", "--enable-capacity", "--capacity-ownerref-level=-1",
				"--capacity-poll-interval="+b.poll.String()),
			Env: []string{"NAMESPACE=" + namespace, "POD_NAMESPACE=" + namespace},
		}}}
	}
	return []runner.Contender{
		provisioner("purser", "purser", "csi-provisioner"),
		provisioner("upstream, default limit", "upstream-csi-provisioner"),
		provisioner("upstream, limits lifted", "upstream-csi-provisioner",
			"--kube-api-capacity-qps=10000", "--kube-api-capacity-burst=10000", "--kube-api-qps=10000", "--kube-api-burst=10000"),
	}
}

// fill creates the namespace, the classes and the nodes.
func (b *bench) fill(ctx context.Context, r *runner.Run) error {
	b.Run = r
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	for i := range classes {
		objects = append(objects, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: driverName, VolumeBindingMode: &waits,
		})
	}
	for i := range b.nodes {
		name := fmt.Sprintf("node-%04d", i)
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, TopologyKeys: []string{corev1.LabelHostname}}},
			}})
	}
	return b.Create(ctx, objects...)
}

func (b *bench) measure(ctx context.Context, _ *runner.Run, one *runner.Running) (err error) {
	program, goal, published := one.Processes[0], classes*b.nodes, 0
	defer func() {
		program.Kill()
		ctx := context.WithoutCancel(ctx)
		err = errors.Join(err, b.API.DeleteAllOf(ctx, &storagev1.CSIStorageCapacity{}, client.InNamespace(namespace)))
	}()
	began, took := time.Now(), time.Duration(0)
	first, err := b.Count(ctx, one, func() (err error) {
		published, err = b.awaitPublished(ctx, goal, program.Program)
		took = time.Since(began)
		return err
	})
	if err != nil {
		return err
	}
	var seen polls
	polling, err := b.Count(ctx, one, func() error { return b.watchPolls(ctx, program.Address, &seen) })
	if err != nil {
		return err
	}
	b.Rate(one, "publish", float64(published)/took.Seconds())
	if published >= goal {
		fmt.Printf("  published        %d capacities in %s\n", published, took.Round(100*time.Millisecond))
	} else {
		whole := time.Duration(float64(took) * float64(goal) / float64(max(published, 1)))
		fmt.Printf("  published        %d of %d capacities in %s; all would take %s\n",
			published, goal, took.Round(time.Second), whole.Round(time.Minute))
	}
	fmt.Printf("  requests         %s\n", verbs(first.Requests))
	fmt.Printf("  in %2d polls      %s; %d times GetCapacity\n", b.polls, verbs(polling.Requests), polling.Calls["GetCapacity"])
	fmt.Printf("  queue            %v after each poll, at most %v\n", seen.depths, seen.deepest)
	fmt.Printf("  memory           %.0f MB at most\n", seen.highest/1e6)
	return nil
}

var errEnded = errors.New("the provisioner has ended")

// awaitPublished returns the number of published capacities when all are, or when patience ends.
func (b *bench) awaitPublished(ctx context.Context, goal int, program *stage.Program) (published int, err error) {
	const pause = 200 * time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, pause, b.patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-program.Ended():
			return false, errEnded
		default:
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacityList"))
		if err := b.API.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return false, err
		}
		published = len(list.Items)
		if left := list.GetRemainingItemCount(); left != nil {
			published += int(*left)
		}
		return published >= goal, nil
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		err = nil
	}
	return published, err
}

// polls is what was seen during the polls.
type polls struct {
	depths           []float64 // of the queue, at the end of each poll
	deepest, highest float64   // queue, and memory in bytes
}

// watchPolls reads the depth of the queue and the memory during the polls.
func (b *bench) watchPolls(ctx context.Context, address string, r *polls) error {
	const samples = 10 // in a poll
	for range b.polls {
		var depth float64
		for range samples {
			if err := runner.Pause(ctx, b.poll/samples); err != nil {
				return err
			}
			var err error
			if depth, err = scrape.Sum(ctx, address, "workqueue_depth", map[string]string{"name": queue}); err != nil {
				return err
			}
			memory, err := scrape.Sum(ctx, address, "process_resident_memory_bytes", nil)
			if err != nil {
				return err
			}
			r.deepest, r.highest = max(r.deepest, depth), max(r.highest, memory)
		}
		r.depths = append(r.depths, depth)
	}
	return nil
}

// verbs prints the requests about capacities by verb.
func verbs(tally audit.Tally) string {
	counts, parts := map[string]int{}, []string(nil)
	for request, answers := range tally {
		// LIST is the benchmark's own: whether all is published.
		if request.Resource == "csistoragecapacities" && request.Verb != "list" {
			counts[request.Verb] += answers.All()
		}
	}
	for _, verb := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", verb, counts[verb]))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

const driverName = "capacity.example"

// driver answers GetCapacity. A tenth of the answers differs from the one before.
type driver struct {
	scripted.Driver

	delay time.Duration
	calls atomic.Int64
}

func newDriver() *driver {
	return &driver{Driver: scripted.Driver{
		Name:   driverName,
		Plugin: []csi.PluginCapability_Service_Type{csi.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS},
		Controller: []csi.ControllerServiceCapability_RPC_Type{
			csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		},
	}}
}

func (d *driver) GetCapacity(ctx context.Context, _ *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(d.delay):
	}
	const different = 10
	free := int64(100 << 30)
	if n := d.calls.Add(1); n%different == 0 {
		free += n << 20
	}
	return &csi.GetCapacityResponse{AvailableCapacity: free}, nil
}
