package up

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/roles/up/bootstrap"
)

// nodeKeeper registers a node of `up` again when a user has deleted and created its Node, and the
// driver on it when the CSINode has lost it. A Node that stays deleted is left so.
type nodeKeeper struct {
	setup bootstrap.Setup
	at    bootstrap.Place
	nodes map[string]bootstrap.Node
	queue workqueue.TypedRateLimitingInterface[string]
}

func newNodeKeeper(setup bootstrap.Setup, at bootstrap.Place, nodes []bootstrap.Node) *nodeKeeper {
	k := &nodeKeeper{
		setup: setup, at: at, nodes: map[string]bootstrap.Node{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	for _, node := range nodes {
		k.nodes[node.Name] = node
	}
	return k
}

// loss is what the API server has lost of a node.
type loss int

const (
	lostNothing loss = iota
	lostDriver
	lostNode
)

// lossOf says what must be registered again. A Node with a condition Ready is registered, whatever the
// condition says: a user may try what happens when the node is not ready.
func lossOf(node *corev1.Node, csiNode *storagev1.CSINode, driver string) loss {
	switch {
	case node == nil || node.DeletionTimestamp != nil:
		return lostNothing
	case !slices.ContainsFunc(node.Status.Conditions, isReadyCondition):
		return lostNode
	case csiNode == nil ||
		!slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver }):
		return lostDriver
	}
	return lostNothing
}

func isReadyCondition(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }

// run keeps the nodes until ctx ends.
func (k *nodeKeeper) run(ctx context.Context) error {
	cache, err := ctrlcache.New(k.setup.Admin, ctrlcache.Options{
		Scheme: kube.Scheme(), DefaultTransform: ctrlcache.TransformStripManagedFields(),
	})
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	err = errors.Join(
		addHandler(ctx, cache, &corev1.Node{}, enqueueWith[*corev1.Node](k)),
		addHandler(ctx, cache, &storagev1.CSINode{}, enqueueWith[*storagev1.CSINode](k)),
	)
	if err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	var working sync.WaitGroup
	defer working.Wait()
	defer k.queue.ShutDown()
	working.Go(func() {
		if cache.WaitForCacheSync(ctx) {
			for k.next(ctx, cache) {
			}
		}
	})
	return cache.Start(ctx)
}

func enqueueWith[T client.Object](k *nodeKeeper) toolscache.ResourceEventHandler {
	return reconcile.InformerHandler(func(c reconcile.Change[T]) { k.enqueue(c.Object()) })
}

func addHandler(
	ctx context.Context, cache ctrlcache.Cache, kind client.Object, handler toolscache.ResourceEventHandler,
) error {
	informer, err := cache.GetInformer(ctx, kind, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(handler)
	return err
}

func (k *nodeKeeper) enqueue(o client.Object) {
	if _, ours := k.nodes[o.GetName()]; ours {
		k.queue.Add(o.GetName())
	}
}

// next works on one node; false at the end.
func (k *nodeKeeper) next(ctx context.Context, cached client.Reader) bool {
	name, end := k.queue.Get()
	if end {
		return false
	}
	defer k.queue.Done(name)
	if err := k.keep(ctx, cached, k.nodes[name]); err != nil && ctx.Err() == nil {
		logr.FromContextOrDiscard(ctx).Info("cannot register the node again yet", "node", name, "problem", err.Error())
		k.queue.AddRateLimited(name)
		return true
	}
	k.queue.Forget(name)
	return true
}

// keep registers what is lost. Only what a live read confirms is written: the cache may have a state
// from before the last write.
func (k *nodeKeeper) keep(ctx context.Context, cached client.Reader, node bootstrap.Node) error {
	lost := lostNothing
	for _, reader := range []client.Reader{cached, k.setup.Client} {
		key := types.NamespacedName{Name: node.Name}
		have, err := kube.Get(ctx, reader, key, &corev1.Node{})
		if err != nil {
			return err
		}
		csiNode, err := kube.Get(ctx, reader, key, &storagev1.CSINode{})
		if err != nil {
			return err
		}
		if lost = lossOf(have, csiNode, k.at.Driver.Name); lost == lostNothing {
			return nil
		}
	}
	logr.FromContextOrDiscard(ctx).Info("registering the node again", "node", node.Name)
	if lost == lostNode {
		return k.setup.RegisterNode(ctx, k.at, node)
	}
	return k.setup.RegisterDriver(ctx, k.at, node)
}
