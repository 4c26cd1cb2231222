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

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// NodeOptions are the settings of an instance that provisions for one node (section 10). The zero
// value is an instance for all nodes.
type NodeOptions struct {
	Name      string            // NODE_NAME
	Segments  map[string]string // of NodeGetInfo's accessible topology; nil for none
	Immediate bool              // --node-deployment-immediate-binding: compete for claims without a selected node
	BaseDelay time.Duration     // --node-deployment-base-delay
	MaxDelay  time.Duration     // --node-deployment-max-delay
}

// Ownership is the state of one claim in the competition of the per-node instances.
type Ownership struct {
	Attempts int       // lost to another node, or failed for lack of capacity (N-5)
	Due      time.Time // of the next attempt; zero before the first
}

type (
	// Compete stores when this node may take the claim.
	Compete struct{ Ownership }
	// CheckRoom calls GetCapacity for each topology. If none has room, [AfterNoRoom] says what
	// follows. A driver that does not report a capacity counts as one with room (N-6).
	CheckRoom struct {
		Bytes    int64
		Requests []*csi.GetCapacityRequest
	}
	// OwnClaim writes the claim, which has this node as its selected node, with a resourceVersion
	// precondition (N-7). If several nodes write at once, one succeeds; [AfterLost] says what follows for
	// the others.
	OwnClaim struct{ Claim *corev1.PersistentVolumeClaim }
)

func (Compete) action()   {}
func (CheckRoom) action() {}
func (OwnClaim) action()  {}

// checkNode leaves the claims of other nodes to their instances (N-2) and competes for claims
// without a node. Nothing is written and no CreateVolume is sent before the claim names this node
// (H-27).
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
	if _, finding := accessibility(onThisNode(s)); finding != nil { // N-4
		return idle(verdict.ClaimElsewhere, "this node cannot have the volume: "+finding.Text())
	}
	return compete(s)
}

// compete takes the claim after a random delay, so that not all nodes write at once (N-5). The claim is
// read live once there is room for its volume, since it is written as it was read.
func compete(s Snapshot) Verdict {
	switch o := s.Ownership; {
	case o.Due.IsZero():
		return competeLater(s, s.now, o.Attempts)
	case s.now.Before(o.Due):
		return wait{Finding: competing(o.Due), Until: o.Due}
	}
	owned := verdict.Because(verdict.ClaimOwned, "node %q takes the claim, which no node has", s.Options.Node.Name)
	live := verdict.Ref{What: ReadClaimToOwn}
	if s.has(live) {
		own := OwnClaim{withNode(s.Claim, s.Options.Node.Name)}
		return do{Finding: owned, Actions: []Action{own}, Then: nothing{Finding: owned}}
	}
	read := verdict.Read[Action]{Finding: owned, Refs: []verdict.Ref{live}}
	if room, ok := roomToCheck(s); ok {
		return do{Finding: owned, Actions: []Action{room}, Then: read}
	}
	return read
}

// competeLater waits before the next attempt to take the claim.
func competeLater(s Snapshot, now time.Time, attempts int) Verdict {
	due := now.Add(delay(s.Options.Node, s.Key.UID, attempts))
	return do{
		Finding: competing(due), Actions: []Action{Compete{Ownership{Attempts: attempts, Due: due}}},
		Then: wait{Finding: competing(due), Until: due},
	}
}

func competing(due time.Time) verdict.Finding {
	return verdict.Because(
		verdict.ClaimContested, "no node has the claim; this one takes it at %s", due.UTC().Format(time.TimeOnly),
	)
}

// delay returns min(base·2^attempts, max), less a part of base that differs by node and by attempt
// (N-5).
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

// roomToCheck returns one GetCapacity request for each topology of the volume. It returns false if
// the driver has no GET_CAPACITY, or if the claim is invalid: its owner reports that.
func roomToCheck(s Snapshot) (CheckRoom, bool) {
	if !s.Driver.Controller[csi.ControllerServiceCapability_RPC_GET_CAPACITY] {
		return CheckRoom{}, false
	}
	request, finding := NewRequest(onThisNode(s))
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
			Parameters: request.GetParameters(), VolumeCapabilities: request.GetVolumeCapabilities(),
			AccessibleTopology: place,
		})
	}
	return check, true
}

// AfterNoRoom returns what follows when this node has no capacity for the volume: another node may
// have, and this one retries later (N-6).
func AfterNoRoom(s Snapshot, now time.Time) Verdict {
	return competeLater(s, now, s.Ownership.Attempts+1)
}

// AfterLost returns what follows when another writer changed the claim first (N-7). Often that was
// another node; the next decision sees it.
func AfterLost(s Snapshot, now time.Time) Verdict {
	return competeLater(s, now, s.Ownership.Attempts+1)
}

// withNode returns the claim with a selected node.
func withNode(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolumeClaim {
	changed := *claim
	changed.Annotations = make(map[string]string, len(claim.Annotations)+1)
	maps.Copy(changed.Annotations, claim.Annotations)
	changed.Annotations[names.AnnSelectedNode] = node
	return &changed
}

// onThisNode returns the snapshot as if the claim named this node.
func onThisNode(s Snapshot) Snapshot {
	s.Claim = withNode(s.Claim, s.Options.Node.Name)
	return s
}

// isForThisNode reports whether the claim is not for another node.
func isForThisNode(s Snapshot) bool {
	return s.Options.Node.Name == "" || selectedNode(s.Claim) == s.Options.Node.Name
}

// NodeObjects returns a Node and a CSINode for the node of an instance, with the fields that the
// kubelet would write (T-31). The real objects are not read then.
func NodeObjects(own NodeOptions, driver string) (*corev1.Node, *storagev1.CSINode, []topology.Node) {
	node, csiNode := &corev1.Node{}, &storagev1.CSINode{}
	node.Name, csiNode.Name = own.Name, own.Name
	node.Labels = own.Segments
	keys := make([]string, 0, len(own.Segments))
	for key := range own.Segments {
		keys = append(keys, key)
	}
	csiNode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: own.Name, TopologyKeys: keys}}
	nodes := topology.Survey(
		[]storagev1.CSINode{*csiNode}, func(string) map[string]string { return own.Segments }, driver,
	)
	return node, csiNode, nodes
}

// IsOnNode reports whether a volume of the driver is on the node of an instance (D-13). A volume
// without node affinity is on the node of the instance that created it. One that no instance
// created is on no known node, and no instance deletes it (N-11, H-28).
func IsOnNode(pv *corev1.PersistentVolume, own NodeOptions, driver string) bool {
	source := pv.Spec.CSI
	if source == nil || source.Driver != driver {
		return false
	}
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return wasCreatedBy(source.VolumeAttributes[names.AttributeProvisionerIdentity], driver, own.Name)
	}
	places := map[string]string{corev1.LabelHostname: own.Name}
	maps.Copy(places, own.Segments)
	return topology.Includes(pv.Spec.NodeAffinity, own.Name, places)
}

// wasCreatedBy reports whether a provisioner identity is that of the instance on a node: a time, a
// number, the driver and the node, joined by dashes (ST-9).
func wasCreatedBy(identity, driver, node string) bool {
	parts := strings.SplitN(identity, "-", 3)
	return len(parts) == 3 && parts[2] == driver+"-"+node
}

// mayMove reports whether the scheduler may select another node after a lack of capacity (C-41). A
// per-node instance gives the claim back also for a driver without topology (N-9), but not while an
// earlier call may have created the volume. With a shared backend and ids derived from names, the
// instance of the next node would get that same volume, and the cleanup of this one would delete
// it.
func mayMove(s Snapshot) bool {
	if s.Options.Node.Name != "" {
		return s.Pending == nil
	}
	return s.Driver.HasTopology && len(mayHaveCreated(s)) < 2
}

// staysOnNodeHint is the advice for a claim that may not move.
const staysOnNodeHint = "The claim stays with its node, since an earlier call may have created the volume there; " +
	"to have another node selected, delete the claim and create it again"
