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
	held   int           // workers that wait for a write
	// leads is the time in which changes may wait without a worker; nil before the start.
	leads context.Context //nolint:containedctx // that of the controller, not of one run
	// listings are the nodes whose list a volume comes into by such changes, until they are answered.
	listings map[corev1.UniqueVolumeName][]string
}

// nodeChanges are the changes of one node that wait for a write, and the time of the write before.
type nodeChanges struct {
	waiting []change
	writes  bool          // a goroutine writes
	more    chan struct{} // gets a value when waiting, or a VolumeAttachment of the node, has changed
	written time.Time
	failed  bool // the write before
}

// recentWrite is a write after which the next one of the node may wait.
type recentWrite struct {
	node string
	at   time.Time
}

// change puts one volume into the list or takes it out.
type change struct {
	cancelled func() error // of the worker that waits, or of the controller: nil while it does
	volume    corev1.UniqueVolumeName
	present   presence
	later     bool // no worker waits
	done      func(outcome)
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
	return &nodeStatus{
		Controller: c, nodes: map[string]*nodeChanges{}, listings: map[corev1.UniqueVolumeName][]string{},
	}
}

func (n *nodeStatus) lead(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.leads = ctx
}

// set has the node's list contain the volume or not, and returns the Node as of the write (C6).
func (n *nodeStatus) set(
	ctx context.Context, node string, volume corev1.UniqueVolumeName, p presence,
) (*corev1.Node, error) {
	done := make(chan outcome, 1)
	n.mu.Lock()
	n.add(ctx, node, change{ctx.Err, volume, p, false, func(o outcome) { done <- o }})
	n.mu.Unlock()
	select {
	case o := <-done:
		return o.node, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("write the status of node %q: %w", node, ctx.Err())
	}
}

// later has the node's list contain the volume with the next write, and calls done then. It reports false,
// and does nothing, if the write would begin at once, or if the write before has failed: the backoff of
// the volume is for that.
func (n *nodeStatus) later(node string, volume corev1.UniqueVolumeName, done func(error)) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	pending := n.nodes[node]
	isIdle := pending == nil || !pending.writes && !pending.written.Add(attachment.ListSpacing).After(n.Clock.Now())
	if isIdle || pending.failed || n.leads == nil || n.leads.Err() != nil {
		return false
	}
	n.listings[volume] = append(n.listings[volume], node)
	n.add(n.leads, node, change{n.leads.Err, volume, present, true, func(o outcome) { done(o.err) }})
	return true
}

// changed has it checked again whether further volumes are to be attached to a node.
func (n *nodeStatus) changed(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if pending := n.nodes[node]; pending != nil && pending.writes {
		pending.signal()
	}
}

func (p *nodeChanges) signal() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

// listing returns the nodes whose list the volume comes into with a write that no worker waits for.
func (n *nodeStatus) listing(volume corev1.UniqueVolumeName) map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	var nodes map[string]bool
	for _, node := range n.listings[volume] {
		if nodes == nil {
			nodes = map[string]bool{}
		}
		nodes[node] = true
	}
	return nodes
}

// add adds a change, and has it written. One that takes a volume out comes in place of one that puts it in.
// The caller holds mu.
func (n *nodeStatus) add(ctx context.Context, node string, c change) {
	pending := n.nodes[node]
	if pending == nil {
		pending = &nodeChanges{more: make(chan struct{}, 1)}
		n.nodes[node] = pending
	}
	if c.present == absent {
		pending.waiting = slices.DeleteFunc(pending.waiting, func(w change) bool {
			if !w.later || w.volume != c.volume {
				return false
			}
			n.unlist(node, w)
			return true
		})
	}
	pending.waiting = append(pending.waiting, c)
	if !c.later {
		n.held++
	}
	begins := !pending.writes
	pending.writes = true
	pending.signal()
	if begins {
		go n.write(context.WithoutCancel(ctx), node, pending)
	}
}

// unlist notes that a change is answered, or dropped. The caller holds mu.
func (n *nodeStatus) unlist(node string, c change) {
	if !c.later {
		return
	}
	all := n.listings[c.volume]
	if at := slices.Index(all, node); at >= 0 {
		all = slices.Delete(all, at, at+1)
	}
	if n.listings[c.volume] = all; len(all) == 0 {
		delete(n.listings, c.volume)
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
		n.mu.Lock()
		pending.written, pending.failed = n.Clock.Now(), err != nil
		n.recent = append(n.recent, recentWrite{node, pending.written})
		for _, c := range changes {
			n.unlist(node, c)
		}
		n.mu.Unlock()
		for _, c := range changes {
			c.done(outcome{written, err})
		}
	}
}

// awaitDue waits until the changes of the node are to be written.
func (n *nodeStatus) awaitDue(ctx context.Context, node string, pending *nodeChanges) {
	for {
		n.mu.Lock()
		now := n.Clock.Now()
		waiting := slices.Clone(pending.waiting)
		w := attachment.ListWrite{Last: pending.written, Crowded: n.held > n.Workers/2}
		n.mu.Unlock()
		w.Detaches = slices.ContainsFunc(waiting, func(c change) bool { return c.present == absent })
		isWaiting := slices.ContainsFunc(waiting, func(c change) bool { return c.cancelled() == nil })
		w.UnderWay = isWaiting && w.Last.Add(attachment.ListSpacing).After(now) && n.isUnderWay(ctx, node, waiting)
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

// isUnderWay reports whether a further volume is to come into the list of the node: the attacher is to
// attach it and has not said that it failed, or it is attached, and neither listed nor among the changes
// that wait.
func (n *nodeStatus) isUnderWay(ctx context.Context, name string, waiting []change) bool {
	var list storagev1.VolumeAttachmentList
	if n.read.List(ctx, &list, client.MatchingFields{kube.IndexAttachmentNode: name}) != nil {
		return false
	}
	node, err := kube.Get(ctx, n.read, types.NamespacedName{Name: name}, &corev1.Node{})
	if err != nil || node == nil {
		return false
	}
	known := map[corev1.UniqueVolumeName]bool{}
	for _, c := range waiting {
		known[c.volume] = true
	}
	for _, v := range node.Status.VolumesAttached {
		known[v.Name] = true
	}
	return slices.ContainsFunc(list.Items, func(va storagev1.VolumeAttachment) bool {
		if va.DeletionTimestamp != nil || va.Status.AttachError != nil || !va.Status.Attached {
			return va.DeletionTimestamp == nil && va.Status.AttachError == nil
		}
		key, ok := n.keyOfAttachment(ctx, &va)
		return ok && key.Attachment == "" && !known[key.UniqueName()]
	})
}

// take returns the changes that wait. One whose worker was cancelled is left out: the process may not
// lead any more. If none is left, the goroutine that writes ends, and the node is forgotten, at once or
// with a later write.
func (n *nodeStatus) take(node string, pending *nodeChanges) []change {
	n.mu.Lock()
	defer n.mu.Unlock()
	var changes []change
	for _, c := range pending.waiting {
		if !c.later {
			n.held--
		}
		if c.cancelled() == nil {
			changes = append(changes, c)
		} else {
			n.unlist(node, c)
		}
	}
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
	node, err := kube.Get(ctx, n.read, types.NamespacedName{Name: name}, &corev1.Node{})
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
