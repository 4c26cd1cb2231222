package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	attachment "github.com/purser-csi/purser/internal/attachdetach/rules"
	"github.com/purser-csi/purser/internal/kube"
)

// nodeStatus writes status.volumesAttached of nodes. While a write of a node is in flight, waits for its
// turn, or is not due by [attachment.ListWrite], changes for it are collected; the next write has all of
// them. It is safe for concurrent use.
type nodeStatus struct {
	*Controller
	mu     sync.Mutex
	nodes  map[string]*nodeChanges
	turns  writeTurns
	recent []recentWrite // in the order of time
	held   int           // workers that wait for a write
	// leads is the time in which changes may wait without a worker; nil before the start.
	leads context.Context //nolint:containedctx // that of the controller, not of one run
	// pending are the changes of a volume that no worker waits for, until they are answered.
	pending map[corev1.UniqueVolumeName][]pendingChange
}

// pendingChange is what the list of a node will say of a volume.
type pendingChange struct {
	node    string
	present presence
}

// nodeChanges are the changes of one node that wait for a write, and the time of the write before.
type nodeChanges struct {
	waiting []change
	writes  bool          // a goroutine writes
	turn    *turn         // the last one that it waited for; nil for none
	more    chan struct{} // gets a value when waiting, or a VolumeAttachment of the node, has changed
	written time.Time
	failed  bool // the write before, or the node did not exist
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
	then      func() // of a change that no worker waits for: called when it is not pending any more
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
		Controller: c, nodes: map[string]*nodeChanges{}, pending: map[corev1.UniqueVolumeName][]pendingChange{},
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
	n.add(ctx, node, change{cancelled: ctx.Err, volume: volume, present: p, done: func(o outcome) { done <- o }})
	n.mu.Unlock()
	select {
	case o := <-done:
		return o.node, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("write the status of node %q: %w", node, ctx.Err())
	}
}

// later has the node's list contain the volume or not with the next write, and calls done with the answer.
// Meanwhile the change is still pending, so that no decision is made between an answer and what done makes
// of it. Then it calls then. It reports false, and does nothing, if the write would begin at once, or if
// the write before has failed: the backoff of the volume is for that.
func (n *nodeStatus) later(
	node string, volume corev1.UniqueVolumeName, p presence, done func(outcome), then func(),
) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.beginsAtOnce(n.nodes[node], p) || n.leads == nil || n.leads.Err() != nil {
		return false
	}
	if pending := n.nodes[node]; pending != nil && pending.failed {
		return false
	}
	n.addLater(node, volume, p, done, then)
	return true
}

// again is later for a change that follows from the answer to another one.
func (n *nodeStatus) again(
	node string, volume corev1.UniqueVolumeName, p presence, done func(outcome), then func(),
) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addLater(node, volume, p, done, then)
}

// addLater adds a change that no worker waits for. The caller holds mu.
func (n *nodeStatus) addLater(
	node string, volume corev1.UniqueVolumeName, p presence, done func(outcome), then func(),
) {
	n.add(n.leads, node, change{n.leads.Err, volume, p, true, done, then})
	n.pending[volume] = append(n.pending[volume], pendingChange{node, p})
}

// beginsAtOnce reports whether a change of a node would be written without a wait. The caller holds mu.
func (n *nodeStatus) beginsAtOnce(pending *nodeChanges, p presence) bool {
	if !n.turns.isFree() || pending != nil && pending.writes {
		return false
	}
	return pending == nil || p == absent || !pending.written.Add(attachment.ListSpacing).After(n.Clock.Now())
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

// changes returns the nodes whose list the volume comes into, and those whose list it leaves, with a write
// that no worker waits for.
func (n *nodeStatus) changes(volume corev1.UniqueVolumeName) (listing, unlisting map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, one := range n.pending[volume] {
		nodes := &listing
		if one.present == absent {
			nodes = &unlisting
		}
		if *nodes == nil {
			*nodes = map[string]bool{}
		}
		(*nodes)[one.node] = true
	}
	return listing, unlisting
}

// add adds a change, and has it written. It comes in place of one of the volume that no worker waits for and
// whose write has not begun. The caller holds mu.
func (n *nodeStatus) add(ctx context.Context, node string, c change) {
	pending := n.nodes[node]
	if pending == nil {
		pending = &nodeChanges{more: make(chan struct{}, 1)}
		n.nodes[node] = pending
	}
	pending.waiting = slices.DeleteFunc(pending.waiting, func(w change) bool {
		if !w.later || w.volume != c.volume {
			return false
		}
		n.answered(node, w)
		return true
	})
	pending.waiting = append(pending.waiting, c)
	if c.present == present {
		n.turns.attaches(pending.turn)
	}
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

// answered notes that a change is answered, or dropped. The caller holds mu.
func (n *nodeStatus) answered(node string, c change) {
	if !c.later {
		return
	}
	all := n.pending[c.volume]
	if at := slices.Index(all, pendingChange{node, c.present}); at >= 0 {
		all = slices.Delete(all, at, at+1)
	}
	if n.pending[c.volume] = all; len(all) == 0 {
		delete(n.pending, c.volume)
	}
}

// write writes until no change waits.
func (n *nodeStatus) write(ctx context.Context, node string, pending *nodeChanges) {
	for n.isWaiting(node, pending) {
		n.awaitDue(ctx, node, pending)
		endTurn := n.awaitTurn(pending)
		changes := n.take(node, pending)
		if len(changes) == 0 {
			endTurn()
			return
		}
		written, err := n.writeOnce(ctx, node, changes)
		endTurn()
		n.mu.Lock()
		pending.written, pending.failed = n.Clock.Now(), err != nil || written == nil
		n.recent = append(n.recent, recentWrite{node, pending.written})
		n.mu.Unlock()
		for _, c := range changes {
			n.answer(node, c, outcome{written, err})
		}
	}
}

func (n *nodeStatus) answer(node string, c change, o outcome) {
	c.done(o)
	if !c.later {
		return
	}
	n.mu.Lock()
	n.answered(node, c)
	n.mu.Unlock()
	c.then()
}

// isWaiting reports whether a change waits. If none does, the goroutine that writes ends, without a turn and
// before a change could come that is not due yet.
func (n *nodeStatus) isWaiting(node string, pending *nodeChanges) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(pending.waiting) == 0 {
		n.rest(node, pending)
		return false
	}
	return true
}

// awaitTurn waits until the node is one of those that may be written. Its changes are collected
// meanwhile. The turn ends by the function, or after [attachment.ListSpacing]: a write that hangs does
// not delay other nodes.
func (n *nodeStatus) awaitTurn(pending *nodeChanges) (end func()) {
	n.mu.Lock()
	isAttach := slices.ContainsFunc(pending.waiting, func(c change) bool { return c.present == present })
	mine := n.turns.queue(isAttach)
	pending.turn = mine
	n.mu.Unlock()
	<-mine.begins
	ended, timer := make(chan struct{}), n.Clock.NewTimer(attachment.ListSpacing)
	once := sync.OnceFunc(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.turns.end()
	})
	go func() {
		select {
		case <-ended:
		case <-timer.C():
			once()
		}
	}()
	return func() {
		timer.Stop()
		close(ended)
		once()
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
// lead any more. If none is left, the goroutine that writes ends.
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
			n.answered(node, c)
		}
	}
	pending.waiting = nil
	if len(changes) == 0 {
		n.rest(node, pending)
	}
	return changes
}

// rest ends the writes of a node, and forgets the nodes whose next write need not wait any more. The caller
// holds mu.
func (n *nodeStatus) rest(node string, pending *nodeChanges) {
	pending.writes = false
	before := n.Clock.Now().Add(-attachment.ListSpacing)
	for len(n.recent) > 0 && !n.recent[0].at.After(before) {
		one := n.recent[0]
		if old := n.nodes[one.node]; old != nil && !old.writes && old.written.Equal(one.at) {
			delete(n.nodes, one.node)
		}
		n.recent = n.recent[1:]
	}
	if pending.written.IsZero() {
		delete(n.nodes, node)
	}
}
