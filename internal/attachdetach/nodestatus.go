package attachdetach

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
	"github.com/purser-csi/purser/internal/reconcile"
)

// nodeStatus writes status.volumesAttached of nodes. While a write of a node is in flight, or is not due
// by [attachment.ListWrite], changes for it are collected; the next write has all of them. Nodes are
// written in parallel. It is safe for concurrent use.
type nodeStatus struct {
	*Controller
	mu     sync.Mutex
	nodes  map[string]*nodeChanges
	recent []recentWrite // in the order of time
	held   int           // changes that wait for a write
}

// nodeChanges are the changes of one node that wait for a write, and the time of the write before.
type nodeChanges struct {
	waiting []change
	writes  bool          // a goroutine writes
	more    chan struct{} // gets a value when waiting has changed
	written time.Time
}

// recentWrite is a write after which the next one of the node may wait.
type recentWrite struct {
	node string
	at   time.Time
}

// change puts one volume into the list or takes it out.
type change struct {
	cancelled func() error // of the worker that waits: nil while it does
	volume    corev1.UniqueVolumeName
	present   presence
	done      chan<- outcome
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
	pending := n.nodes[node]
	if pending == nil {
		pending = &nodeChanges{more: make(chan struct{}, 1)}
		n.nodes[node] = pending
	}
	pending.waiting = append(pending.waiting, change{ctx.Err, volume, p, done})
	n.held++
	begins := !pending.writes
	pending.writes = true
	select {
	case pending.more <- struct{}{}:
	default:
	}
	n.mu.Unlock()
	if begins {
		go n.write(context.WithoutCancel(ctx), node, pending)
	}
	select {
	case o := <-done:
		return o.node, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("write the status of node %q: %w", node, ctx.Err())
	}
}

// write writes until no change waits.
func (n *nodeStatus) write(ctx context.Context, node string, pending *nodeChanges) {
	for {
		n.awaitDue(ctx, node, pending)
		changes := n.take(node, pending)
		if len(changes) == 0 {
			return
		}
		written, err := n.writeOnce(ctx, node, changes)
		for _, c := range changes {
			c.done <- outcome{written, err}
		}
		n.mu.Lock()
		pending.written = n.Clock.Now()
		n.recent = append(n.recent, recentWrite{node, pending.written})
		n.mu.Unlock()
	}
}

// awaitDue waits until the changes of the node are to be written.
func (n *nodeStatus) awaitDue(ctx context.Context, node string, pending *nodeChanges) {
	for {
		n.mu.Lock()
		now := n.Clock.Now()
		w := attachment.ListWrite{Last: pending.written, Crowded: n.held > n.Workers/2, Detaches: slices.ContainsFunc(
			pending.waiting, func(c change) bool { return c.present == absent })}
		isWaiting := slices.ContainsFunc(pending.waiting, func(c change) bool { return c.cancelled() == nil })
		n.mu.Unlock()
		w.UnderWay = isWaiting && w.Last.Add(attachment.ListSpacing).After(now) && n.isUnderWay(ctx, node)
		due := w.Due(now)
		if !due.After(now) {
			return
		}
		select {
		case <-pending.more:
		case <-n.Clock.After(due.Sub(now)):
		}
	}
}

// isUnderWay reports whether the attacher is to attach a further volume to the node, and has not said
// that it failed.
func (n *nodeStatus) isUnderWay(ctx context.Context, node string) bool {
	var list storagev1.VolumeAttachmentList
	if n.Cached.List(ctx, &list, client.MatchingFields{kube.IndexAttachmentNode: node}) != nil {
		return false
	}
	return slices.ContainsFunc(list.Items, func(va storagev1.VolumeAttachment) bool {
		return !va.Status.Attached && va.Status.AttachError == nil && va.DeletionTimestamp == nil
	})
}

// take returns the changes that wait. One whose worker was cancelled is left out: the process may not
// lead any more. If none is left, the goroutine that writes ends, and the node is forgotten, at once or
// with a later write.
func (n *nodeStatus) take(node string, pending *nodeChanges) []change {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held -= len(pending.waiting)
	changes := slices.DeleteFunc(pending.waiting, func(c change) bool { return c.cancelled() != nil })
	pending.waiting, pending.writes = nil, len(changes) > 0
	before := n.Clock.Now().Add(-attachment.ListSpacing)
	for len(n.recent) > 0 && !n.recent[0].at.After(before) {
		one := n.recent[0]
		if old := n.nodes[one.node]; old != nil && !old.writes && old.written.Equal(one.at) {
			delete(n.nodes, one.node)
		}
		n.recent = n.recent[1:]
	}
	if !pending.writes && pending.written.IsZero() {
		delete(n.nodes, node)
	}
	return changes
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
