package attach

import (
	"context"
	"flag"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/bench/runner"
	"github.com/purser-csi/purser/test/scripted"
)

// bench is the driver, the nodes and the volumes.
type bench struct {
	count struct{ nodes, volumes, idle, moves, present int }
	*runner.Run
	observer *observer
	nodes    []string
	made     int // volumes so far
}

// Workload is attach and detach.
func Workload() runner.Workload {
	b := &bench{}
	return runner.Workload{
		Name: "attach", Summary: "attach and detach volumes, ours and upstream's in each combination",
		Flags: b.flags, Driver: func() scripted.Server { return newDriver() }, Prepare: b.prepare,
		Contenders: combinations, Play: b.play,
	}
}

func (b *bench) flags(set *flag.FlagSet) {
	set.IntVar(&b.count.nodes, "nodes", 20, "virtual nodes")
	set.IntVar(&b.count.volumes, "volumes", 500, "volumes at once")
	set.IntVar(&b.count.idle, "idle", 20, "volumes that are attached one after the other")
	set.IntVar(&b.count.moves, "moves", 10, "pods that move to another node")
	set.IntVar(&b.count.present, "present", 0,
		"instead of all that: volumes that are attached, for what an idle program costs beside them")
}

func (b *bench) play(ctx context.Context, _ *runner.Run) error {
	if b.count.present > 0 {
		return b.present(ctx)
	}
	return b.Turns(ctx, runner.Part{Measure: b.measure})
}

// The accounts of the two programs.
const (
	accountController = "controllers"
	accountAttacher   = "csi-attacher"
)

const (
	attachDetach  = "--controllers=persistentvolume-attach-detach-controller"
	stockShipped  = "stock, as shipped"
	manyAttachers = "--worker-threads=100"
)

var stockLifted = []string{"--kube-api-qps=10000", "--kube-api-burst=10000"}

func stockController(args ...string) runner.Program {
	return runner.Program{
		Name: "kube-controller-manager", Account: accountController,
		Args: append([]string{"--leader-elect=false", "--secure-port=0", attachDetach}, args...),
	}
}

func stockAttacher(args ...string) runner.Program {
	return runner.Program{Name: "upstream-csi-attacher", Args: args, Account: accountAttacher, Socket: true}
}

func combinations() []runner.Contender {
	ourController := runner.Program{
		Name: "purser", Args: []string{"controllers", attachDetach}, Account: accountController,
	}
	ourAttacher := runner.Program{
		Name: "purser", Args: []string{"csi-attacher", manyAttachers}, Account: accountAttacher, Socket: true,
	}
	plane := runner.Program{
		Name: "purser", Args: []string{"plane", "--with-attacher", attachDetach}, Account: accountController, Socket: true,
	}
	controller := stockController(stockLifted...)
	attacher := stockAttacher(append(slices.Clone(stockLifted), manyAttachers)...)
	return []runner.Contender{
		{Name: "ours in one process", Programs: []runner.Program{plane}},
		{Name: "ours in two processes", Programs: []runner.Program{ourController, ourAttacher}},
		{Name: "our controller, upstream's attacher", Programs: []runner.Program{ourController, attacher}},
		{Name: "stock controller, our attacher", Programs: []runner.Program{controller, ourAttacher}},
		{Name: "stock, limits lifted", Programs: []runner.Program{controller, attacher}, Baseline: true},
		{Name: stockShipped, Programs: []runner.Program{stockController(), stockAttacher()}},
	}
}

// prepare creates the nodes and the accounts of the programs, and starts to observe.
func (b *bench) prepare(ctx context.Context, r *runner.Run) error {
	b.Run = r
	if err := b.fill(ctx); err != nil {
		return err
	}
	if err := b.Administrators(ctx, accountController, accountAttacher); err != nil {
		return err
	}
	b.observer = newObserver(b.API)
	if err := b.observer.follow(ctx, r); err != nil {
		return err
	}
	b.observer.report(ctx, b.nodes)
	return nil
}

func (b *bench) fill(ctx context.Context) error {
	objects := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: "default"}}, // of the pods
		&storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)},
		},
	}
	for i := range b.count.nodes {
		name := fmt.Sprintf("node-%02d", i)
		b.nodes = append(b.nodes, name)
		objects = append(objects,
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{names.AnnManagedAttach: "true"},
			}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
				Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: name}},
			}})
	}
	if err := b.Create(ctx, objects...); err != nil {
		return err
	}
	for _, name := range b.nodes {
		node := &corev1.Node{}
		if err := b.API.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := b.API.Status().Update(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// placed is a volume on a node.
type placed struct{ node, handle string }

// volumes creates bound pairs of claims and volumes, and places each on a node in turn.
func (b *bench) volumes(ctx context.Context, prefix string, n int) (all []placed, err error) {
	var handles []string
	for range n {
		b.made++
		handles = append(handles, fmt.Sprintf("%s%05d", prefix, b.made))
		all = append(all, placed{b.nodes[b.made%len(b.nodes)], handles[len(handles)-1]})
	}
	return all, b.Pairs(ctx, driverName, "", handles)
}

// start creates the pods of the volumes, each bound to its node.
func (b *bench) start(ctx context.Context, all []placed) error {
	return runner.Each(ctx, all, func(ctx context.Context, p placed) error {
		b.observer.want(p)
		return b.API.Create(ctx, podOf(p))
	})
}

func podOf(p placed) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: runner.Namespace, Name: p.handle + "-on-" + p.node},
		Spec: corev1.PodSpec{
			NodeName: p.node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false),
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.handle},
			}}},
		},
	}
}

// end deletes the pods.
func (b *bench) end(ctx context.Context, all []placed) error {
	return runner.Each(ctx, all, func(ctx context.Context, p placed) error {
		err := b.API.Delete(ctx, podOf(p), client.GracePeriodSeconds(0))
		b.observer.release(p)
		return err
	})
}
