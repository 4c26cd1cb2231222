package provision

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/provision"
	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
)

// survey keeps what the requests for a driver need of all nodes, until a Node or a CSINode changes.
// It is not read anew for each claim: a cluster may have thousands of nodes (T-30).
type survey struct {
	mu      sync.Mutex
	changes int // of Nodes and CSINodes
	is      int // number of changes that nodes shows, and 1; 0 for no nodes
	nodes   []topology.Node
	warned  sync.Once
}

// note has the nodes read anew if one of them has changed, and returns whether it has.
func (s *survey) note(changed bool) bool {
	if changed {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes++
	}
	return changed
}

// get returns the nodes. read is called when they may have changed since the last time.
func (s *survey) get(read func() ([]topology.Node, error)) ([]topology.Node, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.is == s.changes+1 {
		return s.nodes, nil
	}
	began := s.changes
	nodes, err := read()
	if err != nil {
		return nil, err
	}
	s.nodes, s.is = nodes, began+1
	return nodes, nil
}

// place reads the nodes that the request depends on, when the driver has topology.
func (c *Controller) place(ctx context.Context, s provision.Snapshot) (provision.Snapshot, error) {
	if c.Options.Node.Name != "" {
		s.Node, s.CSINode, s.Nodes = provision.Stand(c.Options.Node, c.Driver.Name)
		return s, nil
	}
	if !c.Driver.HasTopology {
		return s, nil
	}
	var err error
	if node := s.Claim.Annotations[names.AnnSelectedNode]; node != "" {
		key := client.ObjectKey{Name: node}
		if s.Node, err = cachedOrLive(ctx, c, key, &corev1.Node{}); err != nil {
			return s, err
		}
		if s.CSINode, err = cachedOrLive(ctx, c, key, &storagev1.CSINode{}); err != nil {
			return s, err
		}
	}
	if !provision.NeedsNodes(s) {
		return s, nil
	}
	if s.Nodes, err = c.survey.get(func() ([]topology.Node, error) { return c.readNodes(ctx) }); err != nil {
		return s, err
	}
	if provision.LacksKeys(s) {
		c.warnOfNoKeys(ctx)
	}
	return s, nil
}

// cachedOrLive reads an object that the cache does not have from the API server: the scheduler may
// know a new node before this cache, and the selection of a node that is gone is removed.
func cachedOrLive[T client.Object](ctx context.Context, c *Controller, key client.ObjectKey, into T) (T, error) {
	var none T
	found, err := kube.Get(ctx, c.Cached, key, into)
	if err != nil || any(found) != any(none) {
		return found, err
	}
	return kube.Get(ctx, c.Live, key, into)
}

// readNodes reads the nodes on which the driver is registered from the cache.
func (c *Controller) readNodes(ctx context.Context) ([]topology.Node, error) {
	var csiNodes storagev1.CSINodeList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&csiNodes, &nodes} {
		if err := c.Cached.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("nodes of the driver: %w", err)
		}
	}
	labels := make(map[string]map[string]string, len(nodes.Items))
	for i := range nodes.Items {
		labels[nodes.Items[i].Name] = nodes.Items[i].Labels
	}
	return topology.Survey(csiNodes.Items, func(node string) map[string]string { return labels[node] }, c.Driver.Name), nil
}

// warnOfNoKeys logs once that volumes are created without a place.
func (c *Controller) warnOfNoKeys(ctx context.Context) {
	c.survey.warned.Do(func() {
		logr.FromContextOrDiscard(ctx).Info("WARNING: the driver announces topology, and no node has a topology key that it registered; "+
			"volumes are requested without accessibility requirements", telemetry.KeyDriver, c.Driver.Name)
	})
}

// watchNodes has the cache watch nodes for a driver with topology, and returns what enqueues claims
// for their changes.
func (c *Controller) watchNodes(ctx context.Context, cache ctrlcache.Cache) ([]source.TypedSource[provision.Key],
	error,
) {
	if !c.Driver.HasTopology || c.Options.Node.Name != "" {
		return nil, nil
	}
	for kind, handler := range map[client.Object]toolscache.ResourceEventHandler{
		&corev1.Node{}: reconcile.InformerHandler(func(change nodeChange) { c.survey.note(isMoved(change)) }),
		&storagev1.CSINode{}: reconcile.InformerHandler(func(change csiNodeChange) {
			c.survey.note(c.isRegisteredAnew(change))
		}),
	} {
		informer, err := cache.GetInformer(ctx, kind, ctrlcache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	return []source.TypedSource[provision.Key]{
		source.TypedKind(cache, &corev1.Node{}, reconcile.OnChange(c.fromNode)),
		source.TypedKind(cache, &storagev1.CSINode{}, reconcile.OnChange(c.fromCSINode)),
	}, nil
}

type (
	nodeChange    = reconcile.Change[*corev1.Node]
	csiNodeChange = reconcile.Change[*storagev1.CSINode]
)

// isMoved reports whether a node is new or gone, or has other labels. Most changes of a node are
// those of its status.
func isMoved(change nodeChange) bool {
	return change.IsCreated() || change.IsDeleted() || !maps.Equal(change.Old.Labels, change.New.Labels)
}

// isRegisteredAnew reports whether the driver registered with other keys, came or went.
func (c *Controller) isRegisteredAnew(change csiNodeChange) bool {
	return !topology.SameKeys(change.Old, change.New, c.Driver.Name)
}

// fromNode enqueues the claims that may wait for another place of a node, or whose node is gone.
func (c *Controller) fromNode(ctx context.Context, change nodeChange, q queue) {
	if c.survey.note(isMoved(change)) {
		c.enqueueForNode(ctx, change.Object().Name, q)
	}
}

// fromCSINode enqueues the claims that may wait for the driver on a node, or whose node is gone.
func (c *Controller) fromCSINode(ctx context.Context, change csiNodeChange, q queue) {
	if c.survey.note(c.isRegisteredAnew(change)) {
		c.enqueueForNode(ctx, change.Object().Name, q)
	}
}

// enqueueForNode enqueues the claims for which the node was selected, and those without a selected
// node whose last attempt failed.
func (c *Controller) enqueueForNode(ctx context.Context, node string, q queue) {
	for _, driver := range []string{c.Driver.Name, ""} { // claims that name no driver may have been handed over
		var claims corev1.PersistentVolumeClaimList
		if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexDriver: driver},
			client.UnsafeDisableDeepCopy); err != nil {
			return // the retry of each claim comes in any case
		}
		for i := range claims.Items {
			claim := &claims.Items[i]
			selected := claim.Annotations[names.AnnSelectedNode]
			if c.asksUs(claim) && (selected == node || selected == "" && c.retries.Has(keyOf(claim))) {
				q.Add(keyOf(claim))
			}
		}
	}
}
