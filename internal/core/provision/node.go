package provision

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/core/names"
	"github.com/purser-csi/purser/internal/core/topology"
	"github.com/purser-csi/purser/internal/core/verdict"
)

// NodeOptions are the settings of an instance that works for the volumes of one node (section 10).
// The zero value is an instance that works for all nodes.
type NodeOptions struct {
	Name      string            // NODE_NAME
	Segments  map[string]string // that NodeGetInfo returned; nil for none
	Immediate bool              // --node-deployment-immediate-binding: compete for claims without a selected node
	BaseDelay time.Duration     // --node-deployment-base-delay
	MaxDelay  time.Duration     // --node-deployment-max-delay
}

// Ownership is what the controller remembers of the competition for a claim.
type Ownership struct {
	Attempts int       // that were lost to another node, or to a lack of room (N-5)
	Due      time.Time // of the next attempt; zero before the first
}

type (
	// Compete remembers when this node may take the claim.
	Compete struct{ Ownership }
	// CheckRoom asks the driver whether one of the places has room for the volume. When none has,
	// what follows is for [AfterNoRoom] to say. A driver that does not say counts as one with room
	// (N-6).
	CheckRoom struct {
		Bytes    int64
		Requests []*csi.GetCapacityRequest
	}
	// OwnClaim writes this node into the claim, under its resourceVersion (N-7). When another writer
	// was first, what follows is for [AfterLost] to say.
	OwnClaim struct{ Node string }
)

func (Compete) action()   {}
func (CheckRoom) action() {}
func (OwnClaim) action()  {}

// checkNode leaves the claims of other nodes to the instances there (N-2), and competes for those
// that no node has. Nothing is written, and the driver is not asked for a volume, before the claim
// names this node (H-27).
func checkNode(s Snapshot) Verdict {
	own, selected := s.Options.Node, selectedNode(s.Claim)
	switch {
	case own.Name == "" || selected == own.Name:
		return nil
	case selected != "":
		return idle(verdict.ClaimElsewhere, fmt.Sprintf("the claim is for node %q", selected))
	case bindsOnFirstUse(s.Class):
		return nil // checkConsumer waits
	case !own.Immediate || s.Class.VolumeBindingMode == nil: // N-3
		return idle(verdict.ClaimElsewhere, "no node was selected, and this instance takes no such claims")
	}
	if _, finding := accessibility(here(s)); finding != nil { // N-4
		return idle(verdict.ClaimElsewhere, "this node cannot have the volume: "+finding.Text())
	}
	return compete(s)
}

// compete takes the claim after a delay, so that not all nodes write at the same moment (N-5).
func compete(s Snapshot) Verdict {
	switch o := s.Ownership; {
	case o.Due.IsZero():
		return again(s, s.now, o.Attempts)
	case s.now.Before(o.Due):
		return wait{Finding: competing(o.Due), Until: o.Due}
	}
	owned := verdict.Finding{
		Reason: verdict.ClaimOwned, Message: fmt.Sprintf("node %q takes the claim, which no node has", s.Options.Node.Name),
	}
	actions := []Action{OwnClaim{s.Options.Node.Name}}
	if room, ok := roomToCheck(s); ok {
		actions = []Action{room, actions[0]}
	}
	return do{Finding: owned, Actions: actions, Then: nothing{Finding: owned}}
}

// again waits before the next attempt.
func again(s Snapshot, now time.Time, attempts int) Verdict {
	due := now.Add(delay(s.Options.Node, s.Key.UID, attempts))
	return do{
		Finding: competing(due), Actions: []Action{Compete{Ownership{Attempts: attempts, Due: due}}},
		Then: wait{Finding: competing(due), Until: due},
	}
}

func competing(due time.Time) verdict.Finding {
	return verdict.Finding{Reason: verdict.ClaimContested, Message: "no node has the claim; this one takes it at " + due.UTC().Format(time.TimeOnly)}
}

// delay is min(base·2^attempts, max), less a part of base that differs from node to node and from
// attempt to attempt (N-5).
func delay(own NodeOptions, claim types.UID, attempts int) time.Duration {
	most := own.BaseDelay
	for range attempts {
		if most >= own.MaxDelay/2 {
			most = own.MaxDelay
			break
		}
		most *= 2
	}
	digest := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", own.Name, claim, attempts))
	part := float64(binary.BigEndian.Uint64(digest[:])) / math.MaxUint64
	return max(0, min(most, own.MaxDelay)-time.Duration(part*float64(own.BaseDelay)))
}

// roomToCheck returns the questions about room, one for each place of the request; false where the
// driver does not answer such questions, or the claim has a mistake that its owner tells of.
func roomToCheck(s Snapshot) (CheckRoom, bool) {
	if !s.Driver.Controller[csi.ControllerServiceCapability_RPC_GET_CAPACITY] {
		return CheckRoom{}, false
	}
	request, finding := NewRequest(here(s))
	if finding != nil || request.GetCapacityRange().GetRequiredBytes() == 0 {
		return CheckRoom{}, false
	}
	places := request.GetAccessibilityRequirements().GetRequisite()
	if len(places) == 0 {
		places = []*csi.Topology{nil}
	}
	check := CheckRoom{Bytes: request.GetCapacityRange().GetRequiredBytes()}
	for _, place := range places {
		check.Requests = append(check.Requests, &csi.GetCapacityRequest{
			Parameters: request.GetParameters(), VolumeCapabilities: request.GetVolumeCapabilities(), AccessibleTopology: place,
		})
	}
	return check, true
}

// AfterNoRoom says what follows when this node has no room for the volume: another node may, and
// this one looks again later (N-6).
func AfterNoRoom(s Snapshot, now time.Time) Verdict { return again(s, now, s.Ownership.Attempts+1) }

// AfterLost says what follows when another writer changed the claim first (N-7). Often it was
// another node, which the next decision sees.
func AfterLost(s Snapshot, now time.Time) Verdict { return again(s, now, s.Ownership.Attempts+1) }

// AfterOwned says what follows when another node has the claim.
func AfterOwned(node string) Verdict {
	return idle(verdict.ClaimElsewhere, fmt.Sprintf("the claim is for node %q", node))
}

// WithNode returns the claim with a selected node. now is the claim as the API server has it. ok is
// false when it has one already, or has a volume.
func WithNode(now *corev1.PersistentVolumeClaim, node string) (changed *corev1.PersistentVolumeClaim, ok bool) {
	if now.Annotations[names.AnnSelectedNode] != "" || now.Spec.VolumeName != "" || now.DeletionTimestamp != nil {
		return nil, false
	}
	changed = now.DeepCopy()
	if changed.Annotations == nil {
		changed.Annotations = map[string]string{}
	}
	changed.Annotations[names.AnnSelectedNode] = node
	return changed, true
}

// here is the snapshot as it will be when this node has the claim.
func here(s Snapshot) Snapshot {
	claim := *s.Claim
	annotations := make(map[string]string, len(claim.Annotations)+1)
	maps.Copy(annotations, claim.Annotations)
	annotations[names.AnnSelectedNode] = s.Options.Node.Name
	claim.Annotations = annotations
	s.Claim = &claim
	return s
}

// isForThisNode reports whether the claim is not for another node.
func isForThisNode(s Snapshot) bool {
	return s.Options.Node.Name == "" || selectedNode(s.Claim) == s.Options.Node.Name
}

// Stand returns the objects that stand for the node of an instance: what the kubelet would have
// written (T-31). With them no Node and no CSINode is read.
func Stand(own NodeOptions, driver string) (*corev1.Node, *storagev1.CSINode, []topology.Node) {
	node, csiNode := &corev1.Node{}, &storagev1.CSINode{}
	node.Name, csiNode.Name = own.Name, own.Name
	node.Labels = own.Segments
	keys := make([]string, 0, len(own.Segments))
	for key := range own.Segments {
		keys = append(keys, key)
	}
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: own.Name, TopologyKeys: keys}}
	nodes := topology.Survey([]storagev1.CSINode{*csiNode}, func(string) map[string]string { return own.Segments }, driver)
	return node, csiNode, nodes
}

// IsHere reports whether a volume of the driver is on the node of an instance (D-13). Without a node
// affinity it is on the node of the instance that made it; of one that no instance made, no node is
// known to have it, and it is deleted by none (N-11, H-28).
func IsHere(pv *corev1.PersistentVolume, own NodeOptions, driver string) bool {
	source := pv.Spec.CSI
	if source == nil || source.Driver != driver {
		return false
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return madeBy(source.VolumeAttributes[names.AttributeProvisionerIdentity], driver, own.Name)
	}
	places := map[string]string{corev1.LabelHostname: own.Name}
	maps.Copy(places, own.Segments)
	return topology.Includes(pv.Spec.NodeAffinity, own.Name, places)
}

// madeBy reports whether an identity is that of the instance on a node: a time, a number, the driver
// and the node, with dashes between (ST-9).
func madeBy(identity, driver, node string) bool {
	parts := strings.SplitN(identity, "-", 3)
	return len(parts) == 3 && parts[2] == driver+"-"+node
}

// mayMove reports whether the claim may be given to another node when this one has no room (C-41).
// An instance of one node gives the claim back also where the driver has no topology (N-9), but not
// while an earlier call may have created the volume. Where the nodes share a backend and ids follow
// from names, the instance of the next node would get that very volume, and the cleanup of this one
// would delete it.
func mayMove(s Snapshot) bool {
	if s.Options.Node.Name != "" {
		return s.Pending == nil
	}
	return s.Driver.HasTopology && len(mayOwn(s)) < 2
}

// staysHere is what a user can do about a claim that may not move.
const staysHere = "The claim stays with its node, since an earlier call may have created the volume there; " +
	"to have another node selected, delete the claim and create it again"
