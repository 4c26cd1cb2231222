package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/cluster"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/test/e2e/audit"
	"github.com/purser-csi/purser/test/e2e/scrape"
	"github.com/purser-csi/purser/test/e2e/stage"
)

const (
	namespace = "storage"
	classes   = 2
	writers   = 16 // requests in flight while the nodes are created
	metrics   = "csistoragecapacity"
)

// contender is a provisioner with its flags.
type contender struct {
	name    string
	program string
	args    []string
}

// contest is the API server and the driver.
type contest struct {
	options
	bin, dir string
	cluster  *cluster.Cluster
	api      client.Client
	driver   *driver
	log      *audit.Log
}

func newContest(ctx context.Context, bin, dir string, o options) (c *contest, err error) {
	c = &contest{options: o, bin: bin, dir: dir}
	binaries, err := cluster.FindBinaries(cluster.Components{}.Programs(), bin)
	if err != nil {
		return nil, err
	}
	if c.driver, err = serve(ctx, c.socket(), o.delay); err != nil {
		return nil, err
	}
	c.cluster, err = cluster.Start(ctx, cluster.Config{Dir: filepath.Join(dir, "cluster"), Binaries: binaries, Audit: true})
	if err != nil {
		return nil, err
	}
	if c.api, err = client.New(c.cluster.RESTConfig(), client.Options{Scheme: kube.Scheme()}); err == nil {
		err = c.fill(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.log = &audit.Log{Path: c.cluster.AuditLog(), Touch: func(ctx context.Context, mark string) error {
		return client.IgnoreNotFound(c.api.Get(ctx, client.ObjectKey{Name: mark}, &corev1.Namespace{}))
	}}
	return c, nil
}

func (c *contest) socket() string { return filepath.Join(c.dir, "csi.sock") }

func (c *contest) close() error {
	c.driver.server.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return c.cluster.Stop(ctx)
}

// fill creates the namespace, the classes and the nodes.
func (c *contest) fill(ctx context.Context) error {
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	for i := range classes {
		objects = append(objects, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("class-%d", i)}, Provisioner: driverName, VolumeBindingMode: &waits,
		})
	}
	for i := range c.nodes {
		name := fmt.Sprintf("node-%04d", i)
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name, TopologyKeys: []string{corev1.LabelHostname}}},
			}})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, object := range objects {
		group.Go(func() error { return c.api.Create(ctx, object) })
	}
	return group.Wait()
}

// result is what one contender did.
type result struct {
	name             string
	goal, published  int
	took             time.Duration
	first, polling   map[string]int // requests by verb, until the publication and during the polls
	calls            int64          // GetCapacity during the polls
	depths           []float64      // of the queue, at the end of each poll
	deepest, highest float64        // queue, and memory in bytes
}

func (c *contest) measure(ctx context.Context, who contender) (r result, err error) {
	r = result{name: who.name, goal: classes * c.nodes}
	begin, err := c.log.Mark(ctx)
	if err != nil {
		return r, err
	}
	program, address, err := c.launch(who)
	if err != nil {
		return r, err
	}
	began := time.Now()
	defer func() { program.Kill(); err = errors.Join(err, c.clear(context.WithoutCancel(ctx))) }()
	if r.published, err = c.awaitPublished(ctx, r.goal, program); err != nil {
		return r, err
	}
	r.took = time.Since(began)
	published, err := c.log.Mark(ctx)
	if err == nil {
		r.first, err = c.requests(begin, published)
	}
	calls := c.driver.calls.Load()
	if err == nil {
		err = c.watchPolls(ctx, address, &r)
	}
	if err != nil {
		return r, err
	}
	r.calls = c.driver.calls.Load() - calls
	end, err := c.log.Mark(ctx)
	if err == nil {
		r.polling, err = c.requests(published, end)
	}
	return r, err
}

func (c *contest) launch(who contender) (program *stage.Program, address string, err error) {
	if address, err = scrape.FreeAddress(); err != nil {
		return nil, "", err
	}
	log, err := os.CreateTemp(c.dir, "provisioner-*.log")
	if err != nil {
		return nil, "", err
	}
	defer log.Close() // the child has its own
	program, err = stage.Launch(stage.Command{
		Path: filepath.Join(c.bin, who.program), Output: log,
		Args: append(slices.Clone(who.args), "--csi-address="+c.socket(), "--kubeconfig="+c.cluster.Kubeconfig(),
			"--feature-gates=Topology=true", "--http-endpoint="+address, "--enable-capacity", "--capacity-ownerref-level=-1",
			"--capacity-poll-interval="+c.poll.String()),
		Env: []string{"KUBECONFIG=", "NAMESPACE=" + namespace, "POD_NAMESPACE=" + namespace},
	})
	return program, address, err
}

var errEnded = errors.New("the provisioner has ended")

// awaitPublished returns the number of published capacities when all are, or when patience ends.
func (c *contest) awaitPublished(ctx context.Context, goal int, program *stage.Program) (published int, err error) {
	const pause = 200 * time.Millisecond
	err = wait.PollUntilContextTimeout(ctx, pause, c.patience, true, func(ctx context.Context) (bool, error) {
		select {
		case <-program.Ended():
			return false, errEnded
		default:
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(storagev1.SchemeGroupVersion.WithKind("CSIStorageCapacityList"))
		if err := c.api.List(ctx, list, client.InNamespace(namespace), client.Limit(1)); err != nil {
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

// watchPolls reads the depth of the queue and the memory during the polls.
func (c *contest) watchPolls(ctx context.Context, address string, r *result) error {
	const samples = 10 // in a poll
	for range c.polls {
		var depth float64
		for range samples {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(c.poll / samples):
			}
			var err error
			if depth, err = scrape.Sum(ctx, address, "workqueue_depth", map[string]string{"name": metrics}); err != nil {
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

// requests counts those about capacities by verb.
func (c *contest) requests(from, to audit.Mark) (map[string]int, error) {
	tally, err := c.log.Between(from, to)
	byVerb := map[string]int{}
	for request, answers := range tally {
		isOurs := request.Verb == "list" && request.Resource == "csistoragecapacities" // the question whether all is published
		if request.Resource == "csistoragecapacities" && !isOurs {
			byVerb[request.Verb] += answers.All()
		}
	}
	return byVerb, err
}

// clear deletes what was published.
func (c *contest) clear(ctx context.Context) error {
	return c.api.DeleteAllOf(ctx, &storagev1.CSIStorageCapacity{}, client.InNamespace(namespace))
}

// String returns the result as a paragraph.
func (r result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.name)
	if r.published >= r.goal {
		fmt.Fprintf(&b, "  published        %d capacities in %s\n", r.published, r.took.Round(100*time.Millisecond))
	} else {
		whole := time.Duration(float64(r.took) * float64(r.goal) / float64(max(r.published, 1)))
		fmt.Fprintf(&b, "  published        %d of %d capacities in %s; all would take %s\n",
			r.published, r.goal, r.took.Round(time.Second), whole.Round(time.Minute))
	}
	fmt.Fprintf(&b, "  requests         %s\n", verbs(r.first))
	fmt.Fprintf(&b, "  in %2d polls      %s; %d times GetCapacity\n", len(r.depths), verbs(r.polling), r.calls)
	fmt.Fprintf(&b, "  queue            %v after each poll, at most %v\n", r.depths, r.deepest)
	fmt.Fprintf(&b, "  memory           %.0f MB at most\n", r.highest/1e6)
	return b.String()
}

func verbs(counts map[string]int) string {
	var parts []string
	for _, verb := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", verb, counts[verb]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
