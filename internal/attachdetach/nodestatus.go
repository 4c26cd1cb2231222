package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// nodeStatus writes status.volumesAttached of nodes. While a write of a node is in flight, changes
// for it are collected; the next write has all of them. Nodes are written in parallel. It is safe
// for concurrent use.
type nodeStatus struct {
	*Controller
	mu    sync.Mutex
	nodes map[string]*nodeChanges
}

// nodeChanges are the changes of one node that wait for a write. The entry exists while a goroutine
// writes.
type nodeChanges struct{ waiting []change }

// change puts one volume into the list or takes it out.
type change struct {
	volume  corev1.UniqueVolumeName
	present presence
	done    chan<- outcome
}

type presence int

const (
	absent presence = iota
	present
)

// outcome is the Node that the write was answered with; nil for a node that does not exist.
type outcome struct {
	node *corev1.Node
	err  error
}

func newNodeStatus(c *Controller) *nodeStatus {
	return &nodeStatus{Controller: c, nodes: map[string]*nodeChanges{}}
}

// set has the node's list contain the volume or not, and returns the Node as of the write (C6).
func (n *nodeStatus) set(
	ctx context.Context, node string, volume corev1.UniqueVolumeName, p presence,
) (*corev1.Node, error) {
	done := make(chan outcome, 1)
	n.mu.Lock()
	pending, writes := n.nodes[node]
	if !writes {
		pending = &nodeChanges{}
		n.nodes[node] = pending
	}
	pending.waiting = append(pending.waiting, change{volume, p, done})
	n.mu.Unlock()
	if !writes {
		go n.write(context.WithoutCancel(ctx), node)
	}
	select {
	case o := <-done:
		return o.node, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("write the status of node %q: %w", node, ctx.Err())
	}
}

// write writes until no change waits.
func (n *nodeStatus) write(ctx context.Context, node string) {
	for {
		n.mu.Lock()
		changes := n.nodes[node].waiting
		if len(changes) == 0 {
			delete(n.nodes, node)
			n.mu.Unlock()
			return
		}
		n.nodes[node].waiting = nil
		n.mu.Unlock()
		written, err := n.writeOnce(ctx, node, changes)
		for _, c := range changes {
			c.done <- outcome{written, err}
		}
	}
}

func (n *nodeStatus) writeOnce(ctx context.Context, name string, changes []change) (*corev1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, reconcile.APITimeout)
	defer cancel()
	node, err := kube.Get(ctx, n.Cached, types.NamespacedName{Name: name}, &corev1.Node{})
	if err != nil || node == nil {
		return nil, err
	}
	written, err := n.patch(ctx, node, changes)
	if !apierrors.IsInvalid(err) && !apierrors.IsConflict(err) {
		return written, err
	}
	// The list is not the one that was seen: another writer, or a stale cache.
	node, err = kube.Get(ctx, n.Live, types.NamespacedName{Name: name}, &corev1.Node{})
	if err != nil || node == nil {
		return nil, err
	}
	return n.patch(ctx, node, changes)
}

// patch sends the whole list explicitly (4.6), and tests that the list is still the one that it was
// made from.
func (n *nodeStatus) patch(ctx context.Context, node *corev1.Node, changes []change) (*corev1.Node, error) {
	list := slices.Clone(node.Status.VolumesAttached)
	for _, c := range changes {
		list = slices.DeleteFunc(list, func(v corev1.AttachedVolume) bool { return v.Name == c.volume })
		if c.present == present {
			list = append(list, corev1.AttachedVolume{Name: c.volume})
		}
	}
	slices.SortFunc(list, compareVolumes)
	before := slices.Clone(node.Status.VolumesAttached)
	slices.SortFunc(before, compareVolumes)
	if slices.Equal(list, before) {
		return node, nil
	}
	raw, err := json.Marshal(listPatch(node, list))
	if err != nil {
		return nil, err
	}
	changed := node.DeepCopy()
	if err := n.Writer.Status().Patch(ctx, changed, client.RawPatch(types.JSONPatchType, raw)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("write the attached volumes of node %q: %w", node.Name, err)
	}
	return changed, nil
}

func listPatch(node *corev1.Node, list []corev1.AttachedVolume) []map[string]any {
	const path = "/status/volumesAttached"
	patch := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": node.UID}}
	if len(node.Status.VolumesAttached) == 0 {
		patch = append(patch, map[string]any{"op": "test", "path": path, "value": nil})
	} else {
		patch = append(patch, map[string]any{"op": "test", "path": path, "value": node.Status.VolumesAttached})
	}
	if len(list) == 0 {
		return append(patch, map[string]any{"op": "remove", "path": path})
	}
	return append(patch, map[string]any{"op": "add", "path": path, "value": list})
}

func compareVolumes(a, b corev1.AttachedVolume) int {
	if a.Name < b.Name {
		return -1
	} else if a.Name > b.Name {
		return 1
	}
	return 0
}
