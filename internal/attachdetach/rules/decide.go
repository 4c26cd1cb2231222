package attachment

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/verdict"
)

// Decide returns what comes next for one volume on all of its nodes. Detaches come before attaches
// (4.4).
func Decide(s Snapshot, now time.Time) Verdict {
	if s.Key.Attachment != "" {
		return orphan(s, now)
	}
	return planFor(s, now).verdict()
}

// OnNode returns what [Decide] says of one node, and what it tells the pods there that need the
// volume in an event of a failure. Both are zero where nothing is left to do.
func OnNode(s Snapshot, node string, now time.Time) (decided verdict.Finding, message string) {
	p := planFor(s, now)
	return p.about[node], p.messages[node]
}

func planFor(s Snapshot, now time.Time) *plan {
	p := &plan{
		Snapshot: s, now: now, wants: s.wanted(), here: map[string]*storagev1.VolumeAttachment{},
		about: map[string]verdict.Finding{}, messages: map[string]string{},
	}
	for _, va := range s.Attachments {
		p.here[va.Spec.NodeName] = va
		if va.Name != names.AttachmentName(s.Key.Handle, s.Key.Driver, va.Spec.NodeName) {
			p.foreign = append(p.foreign, va)
		}
	}
	for _, node := range p.nodes() {
		if _, wanted := p.wants[node]; !wanted {
			p.node = node
			p.detach(node)
		}
	}
	for _, node := range p.inOrder() {
		p.node = node
		p.attach(node)
	}
	return p
}

// plan collects the actions for all nodes of a volume.
type plan struct {
	Snapshot
	now     time.Time
	wants   map[string][]*corev1.Pod
	here    map[string]*storagev1.VolumeAttachment
	foreign []*storagev1.VolumeAttachment
	reads   []verdict.Ref
	actions []Action
	begun   verdict.Finding // the first action's
	waits   []wait

	node     string                     // that is being decided about
	about    map[string]verdict.Finding // the first finding of each node
	messages map[string]string          // the failure that the events of a node's pods have

	measured Measured
}

// nodes are all that have the volume or want it, sorted.
func (p *plan) nodes() []string {
	all := map[string]bool{}
	for node := range p.here {
		all[node] = true
	}
	for node := range p.wants {
		all[node] = true
	}
	for node := range p.Nodes {
		if p.mayBeListed(node) {
			all[node] = true
		}
	}
	for _, changes := range []map[string]bool{p.Listing, p.Unlisting} {
		for node := range changes {
			all[node] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// inOrder are the nodes that want the volume: those that have it first, then by their oldest pod.
func (p *plan) inOrder() []string {
	return slices.SortedFunc(maps.Keys(p.wants), func(a, b string) int {
		if hasA, hasB := p.here[a] != nil, p.here[b] != nil; hasA != hasB {
			if hasA {
				return -1
			}
			return 1
		}
		return comparePods(p.wants[a][0], p.wants[b][0])
	})
}

func (p *plan) act(reason verdict.Reason, message string, actions ...Action) {
	f := p.note(reason, message)
	if len(p.actions) == 0 {
		p.begun = f
	}
	for _, a := range actions {
		if tell, tells := a.(Tell); tells && tell.Event == Failed {
			p.messages[p.node] = tell.Message
		}
	}
	p.actions = append(p.actions, actions...)
}

func (p *plan) wait(reason verdict.Reason, until time.Time, message string) {
	p.waits = append(p.waits, wait{Finding: p.note(reason, message), Until: until})
}

func (p *plan) note(reason verdict.Reason, message string) verdict.Finding {
	f := verdict.Because(reason, "%s", message)
	if _, known := p.about[p.node]; !known {
		p.about[p.node] = f
	}
	return f
}

// attach brings the volume to a node that wants it.
func (p *plan) attach(node string) {
	va, pods := p.here[node], p.wants[node]
	switch {
	case va == nil:
		p.create(node)
	case va.DeletionTimestamp != nil:
		p.wait(
			verdict.AttachUnderWay,
			time.Time{},
			fmt.Sprintf("VolumeAttachment %s is being deleted; a new one follows%s", va.Name, detachError(va)),
		)
	case p.isReplaceable(va, node):
		p.replace(va, node)
	case va.Status.Attached && p.isListed(node):
	case va.Status.Attached && p.Listing[node]:
		p.wait(verdict.AttachUnderWay, time.Time{}, "the volume is listed with the next write of node "+node)
	case va.Status.Attached:
		if !p.Confirmed[va.UID] {
			p.act(verdict.AttachRequested, "list the volume as attached to node "+node, Confirm{va})
		}
		p.act(verdict.AttachRequested, "list the volume as attached to node "+node, List{node, Tell{
			Pods: pods, Event: Attached, State: "attached " + string(va.UID),
			Message: fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", p.name()),
		}})
	case va.Status.AttachError != nil:
		p.act(verdict.AttachRetried, "tell the pods of the attach error", Tell{
			Pods: pods, Event: Failed, State: "error " + va.Status.AttachError.Message, Again: tellAgain,
			Message: fmt.Sprintf(
				"AttachVolume.Attach failed for volume %q : %s", p.name(), va.Status.AttachError.Message,
			),
		})
		p.wait(verdict.AttachRetried, time.Time{}, "the attacher reports: "+va.Status.AttachError.Message)
	default:
		p.wait(
			verdict.AttachUnderWay,
			time.Time{},
			fmt.Sprintf("driver %q attaches the volume to node %s", p.Key.Driver, node),
		)
	}
}

// create asks for an attachment. A VolumeAttachment on another node blocks an exclusive volume
// whatever its status: until it is gone, the volume may be there. So does a list of another node.
func (p *plan) create(node string) {
	if !p.isShared() {
		for _, other := range p.nodes() {
			if other != node && (p.here[other] != nil || p.mayBeListed(other)) {
				p.conflict(node, other)
				return
			}
		}
	}
	name := names.AttachmentName(p.Key.Handle, p.Key.Driver, node)
	p.here[node] = &storagev1.VolumeAttachment{} // blocks the nodes that follow
	p.act(verdict.AttachRequested, "attach the volume to node "+node, Create{
		Name:   name,
		Node:   node,
		Volume: p.wantedVolume(node),
	})
	p.wait(
		verdict.AttachUnderWay,
		time.Time{},
		fmt.Sprintf("driver %q attaches the volume to node %s", p.Key.Driver, node),
	)
}

// detach takes the volume from a node that does not want it.
func (p *plan) detach(node string) {
	va, object := p.here[node], p.Nodes[node]
	switch {
	case va != nil && slices.Contains(p.foreign, va):
		p.waitToDetach(node, verdict.AttachmentForeign)
		p.wait(
			verdict.AttachmentForeign,
			time.Time{},
			fmt.Sprintf("VolumeAttachment %s on node %s was not made by this controller", va.Name, node),
		)
		return
	case object != nil && !isManaged(object):
		return // its kubelet attaches and detaches
	}
	force := NotForced
	if isInUse(object, p.Key.UniqueName()) {
		var until time.Time
		if force, until = p.force(node); force == NotForced {
			p.waitToDetach(node, verdict.DetachAwaitsUnmount)
			p.wait(verdict.DetachAwaitsUnmount, until, fmt.Sprintf("node %s reports the volume in use", node))
			return
		}
	}
	reason := verdict.DetachRequested
	if force != NotForced {
		reason = verdict.DetachForced
	}
	message := "detach the volume from node " + node
	switch {
	case p.Unlisting[node]: // the answer to that write enqueues the volume
	case p.mayBeListed(node):
		p.act(reason, message, Unlist{Node: node, Attachment: va, Force: force})
	case va != nil && va.DeletionTimestamp == nil:
		p.act(reason, message, Delete{Attachment: va, Force: force})
	}
	if va != nil {
		if va.DeletionTimestamp != nil {
			p.waitToDetach(node, verdict.Detaching)
		}
		p.wait(
			verdict.AttachUnderWay,
			time.Time{},
			fmt.Sprintf("driver %q detaches the volume from node %s%s", p.Key.Driver, node, detachError(va)),
		)
	}
}

// detachError returns the last error of the attacher, to be appended to a message.
func detachError(va *storagev1.VolumeAttachment) string {
	if va.Status.DetachError == nil {
		return ""
	}
	return ". The last attempt to detach it failed: " + va.Status.DetachError.Message
}

// force says whether a volume in use is detached anyway (4.4 step 4), and if not, when to look
// again; the zero time is for an event.
func (p *plan) force(node string) (Force, time.Time) {
	object := p.Nodes[node]
	switch {
	case isOutOfService(object):
		return ForcedByTaint, time.Time{}
	case isHealthy(object) || p.Rules.ForceAfter == 0:
		return NotForced, time.Time{}
	}
	since, noticed := p.Unwanted[node]
	if !noticed {
		since = p.now
	}
	if due := since.Add(p.Rules.ForceAfter); p.now.Before(due) {
		return NotForced, due
	}
	return ForcedByTimeout, time.Time{}
}

// verdict is the actions, followed by what is waited for, unless something must be read before.
func (p *plan) verdict() Verdict {
	if len(p.reads) > 0 {
		return verdict.MustRead[Action](p.reads...)
	}
	end := p.end()
	var actions []Action
	if unwanted := p.unwanted(); !slices.Equal(unwanted, slices.Sorted(maps.Keys(p.Unwanted))) {
		actions = append(actions, Note{unwanted})
	}
	switch {
	case len(p.actions) > 0:
		return do{Finding: p.begun, Actions: append(actions, p.actions...), Then: end}
	case len(actions) > 0:
		return do{Finding: end.Because(), Actions: actions, Then: end}
	}
	return end
}

// end is the first wait, with the earliest time of all.
func (p *plan) end() Verdict {
	if len(p.waits) == 0 {
		if len(p.wants) > 0 {
			return nothing{
				Finding: verdict.Because(verdict.AttachSucceeded, "the volume is attached where it is needed"),
			}
		}
		return nothing{Finding: verdict.Because(verdict.AttachNotNeeded, "no node needs the volume attached")}
	}
	first := p.waits[0]
	for _, w := range p.waits[1:] {
		if !w.Until.IsZero() && (first.Until.IsZero() || w.Until.Before(first.Until)) {
			first.Until = w.Until
		}
	}
	return first
}

// AfterConfirm returns nil if the volume may be listed: va, the answer to the write, is not being
// deleted. va is nil for one that does not exist.
func AfterConfirm(va *storagev1.VolumeAttachment) Verdict {
	if va != nil && va.DeletionTimestamp == nil {
		return nil
	}
	return wait{Finding: verdict.Because(
		verdict.AttachUnderWay, "the VolumeAttachment is being deleted; a new one follows",
	)}
}

// AfterUnlist returns what follows an unlist, from the Node that its PATCH was answered with (C6):
// a volume that this Node reports in use is listed again, unless the detach is forced. node is nil
// for one that does not exist any more.
func AfterUnlist(s Snapshot, a Unlist, node *corev1.Node) Verdict {
	if isInUse(node, s.Key.UniqueName()) && a.Force == NotForced {
		end := wait{Finding: verdict.Because(verdict.DetachAwaitsUnmount, "node %s reports the volume in use", a.Node)}
		return do{Finding: end.Finding, Actions: []Action{List{Node: a.Node}}, Then: end}
	}
	return nil
}
