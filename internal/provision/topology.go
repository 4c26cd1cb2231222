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

	"github.com/purser-csi/purser/internal/names"
	provision "github.com/purser-csi/purser/internal/provision/rules"
	"github.com/purser-csi/purser/internal/reconcile"
	"github.com/purser-csi/purser/internal/telemetry"
	"github.com/purser-csi/purser/internal/topology"
)

// survey caches the topology of all nodes until a Node or a CSINode changes. A cluster may have
// thousands of nodes, so they are not read for each claim (T-30).
type survey struct {
	mu      sync.Mutex
	changes int // of Nodes and CSINodes
	is      int // changes+1 at the time of nodes; 0 for no nodes
	nodes   []topology.Node
	warned  sync.Once
}

// note invalidates the cache if a node has changed, and returns whether it has.
func (s *survey) note(changed bool) bool {
	if changed {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changes++
	}
	return changed
}

// get returns the nodes. It calls read if they may have changed.
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

// warnOfNoKeys logs once that volumes are requested without a topology requirement.
func (c *Controller) warnOfNoKeys(ctx context.Context) {
	c.survey.warned.Do(func() {
		logr.FromContextOrDiscard(ctx).Info("WARNING: the driver announces topology, and no node has a topology key "+
			"that it registered; volumes are requested without accessibility requirements", telemetry.KeyDriver,
			c.Driver.Name)
	})
}

// watchNodes adds event handlers for nodes if the driver has topology, and returns the sources that
// enqueue claims for their changes.
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

// isMoved reports whether a node was created or deleted, or has other labels. Most updates of a
// node only change its status.
func isMoved(change nodeChange) bool {
	return change.IsCreated() || change.IsDeleted() || !maps.Equal(change.Old.Labels, change.New.Labels)
}

// isRegisteredAnew reports whether the driver was registered, removed, or has other topology keys.
func (c *Controller) isRegisteredAnew(change csiNodeChange) bool {
	return !topology.SameKeys(change.Old, change.New, c.Driver.Name)
}

// fromNode enqueues the claims that may wait for other labels of a node, or whose node is gone.
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
		if err := c.Cached.List(ctx, &claims, client.MatchingFields{IndexProvisioner: driver},
			client.UnsafeDisableDeepCopy); err != nil {
			return // the backoff requeues each claim
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
