package reclaim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	reclaim "github.com/purser-csi/purser/internal/reclaim/rules"
)

// ReaperConfig has the settings of a reaper.
type ReaperConfig struct {
	Cached client.Reader // the informer cache
	Live   client.Reader // the API server
	Writer client.Writer
	Driver string
	// CSI deletes the volumes; nil to remove only the objects, since the data was on the node.
	CSI csi.ControllerClient
	// After is how long the nodes of a volume must not have existed.
	After time.Duration
	Clock clock.WithTicker
	// Namespace and Prefix name the journal Leases of the instances: the prefix and then the node.
	Namespace, Prefix string
}

// Reaper is a runnable of the manager that runs on the leader.
type Reaper struct {
	ReaperConfig
	absences reclaim.Absences // only Start's goroutine touches it

	mu      sync.Mutex
	volumes map[types.UID]*corev1.PersistentVolume // to be reclaimed
	queue   workqueue.TypedRateLimitingInterface[string]
}

// NewReaper returns a reaper that is not started.
func NewReaper(cfg ReaperConfig) *Reaper { return &Reaper{ReaperConfig: cfg} }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *Reaper) NeedLeaderElection() bool { return true }

// Sources enqueue the names of the volumes to be reclaimed after each check.
func (r *Reaper) Sources() []source.TypedSource[string] {
	return []source.TypedSource[string]{source.TypedFunc[string](
		func(_ context.Context, q workqueue.TypedRateLimitingInterface[string]) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.queue = q
			return nil
		},
	)}
}

// Has reports whether a volume is to be reclaimed.
func (r *Reaper) Has(pv *corev1.PersistentVolume) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.volumes[pv.UID] != nil
}

// Start checks the nodes until ctx ends, several times within After.
func (r *Reaper) Start(ctx context.Context) error {
	ticker := r.Clock.NewTicker(min(max(r.After/4, time.Second), time.Minute))
	defer ticker.Stop()
	for {
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			logr.FromContextOrDiscard(ctx).Info(
				"the volumes of removed nodes were not looked for", "problem", err.Error(),
			)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// look finds the volumes and the journals of nodes that do not exist any more.
func (r *Reaper) look(ctx context.Context) error {
	nodes, err := r.nodes(ctx)
	if err != nil {
		return err
	}
	var volumes corev1.PersistentVolumeList
	if err := r.Cached.List(ctx, &volumes, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("PersistentVolumes: %w", err)
	}
	found := map[types.UID]*corev1.PersistentVolume{}
	var gone []types.UID
	for i := range volumes.Items {
		pv := &volumes.Items[i]
		if reclaim.Owner(pv) == r.Driver && reclaim.RemovedPlaces(pv.Spec.NodeAffinity, nodes) != nil {
			found[pv.UID] = pv
			gone = append(gone, pv.UID)
		}
	}
	leases, err := r.leases(ctx, nodes)
	if err != nil {
		return err
	}
	for uid := range leases {
		gone = append(gone, uid)
	}
	due := r.absences.Due(gone, r.Clock.Now(), r.After)
	for uid := range found {
		if !due[uid] {
			delete(found, uid)
		}
	}
	r.enqueue(found)
	for uid, lease := range leases {
		if due[uid] {
			if err := r.deleteLease(ctx, lease); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodes returns the nodes of the cache.
func (r *Reaper) nodes(ctx context.Context) (reclaim.Nodes, error) {
	var list corev1.NodeList
	if err := r.Cached.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	nodes := make(reclaim.Nodes, len(list.Items))
	for i := range list.Items {
		nodes[list.Items[i].Name] = list.Items[i].Labels
	}
	return nodes, nil
}

func (r *Reaper) enqueue(volumes map[types.UID]*corev1.PersistentVolume) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.volumes = volumes
	if r.queue == nil {
		return
	}
	for _, pv := range volumes {
		if !reclaim.HasNothingToDo(pv) {
			r.queue.Add(pv.Name)
		}
	}
}
