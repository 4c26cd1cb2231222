package node

import (
	"context"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	mounting "github.com/purser-csi/purser/internal/node/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// livePods are the pods of the node that wanted their volumes when the API server was last asked,
// by uid. The node's pods are listed once; a pod of the list is read again each time. A pod that is
// in neither the list nor the cache is gone: no later pod has its uid. It is safe for concurrent use.
type livePods struct {
	mu    sync.Mutex
	byUID map[types.UID]types.NamespacedName // nil before the list
}

// Read implements reconcile.Reader: whether the API server has pods.
func (a *Agent) Read(ctx context.Context, s mounting.Snapshot, refs []verdict.Ref) (mounting.Snapshot, error) {
	alive := maps.Clone(s.Alive)
	if alive == nil {
		alive = map[types.UID]bool{}
	}
	for _, ref := range refs {
		is, err := a.isAlive(ctx, types.UID(ref.Name))
		if err != nil {
			return s, err
		}
		alive[types.UID(ref.Name)] = is
	}
	s.Alive = alive
	return s, nil
}

// isAlive reports whether the API server has the pod, with volumes that must stay mounted.
func (a *Agent) isAlive(ctx context.Context, uid types.UID) (bool, error) {
	a.live.mu.Lock()
	defer a.live.mu.Unlock()
	if a.live.byUID == nil {
		return a.listAlive(ctx, uid)
	}
	name, listed := a.live.byUID[uid]
	if !listed {
		return false, nil
	}
	pod, err := kube.Get(ctx, a.Live, name, &corev1.Pod{})
	if err != nil {
		return false, fmt.Errorf("read pod %s: %w", name, err)
	}
	if pod != nil && pod.UID == uid && mounting.WantsVolumes(pod) {
		return true, nil
	}
	delete(a.live.byUID, uid)
	return false, nil
}

// listAlive lists the pods of the node.
func (a *Agent) listAlive(ctx context.Context, uid types.UID) (bool, error) {
	var list corev1.PodList
	if err := a.Live.List(ctx, &list, client.MatchingFields{"spec.nodeName": a.Node}); err != nil {
		return false, fmt.Errorf("list the pods of node %s: %w", a.Node, err)
	}
	a.live.byUID = map[types.UID]types.NamespacedName{}
	for i := range list.Items {
		if pod := &list.Items[i]; mounting.WantsVolumes(pod) {
			a.live.byUID[pod.UID] = client.ObjectKeyFromObject(pod)
		}
	}
	_, alive := a.live.byUID[uid]
	return alive, nil
}
