package provision

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/purser-csi/purser/internal/csispec"
	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

// onOwnNode makes the snapshot that of the instance on node n1, in zone a.
func onOwnNode(s *Snapshot) {
	s.Driver.HasTopology = true
	s.Options.Node = NodeOptions{
		Name: "n1", Segments: map[string]string{"zone": "a"}, Immediate: true, BaseDelay: 20 * time.Second, MaxDelay: time.Minute,
	}
	s.Options.Topology = topology.Rules{Immediate: true}
	s.Node, s.CSINode, s.Nodes = NodeObjects(s.Options.Node, driver)
}

func immediate(s *Snapshot) {
	s.Class.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate)
}

func due(at time.Time) func(*Snapshot) {
	return func(s *Snapshot) { s.Ownership.Due = at }
}

func readToOwn(s *Snapshot) { s.Read = append(s.Read, verdict.Ref{What: ReadClaimToOwn}) }

func tellsRoom(s *Snapshot) {
	s.Driver.Controller[csi.ControllerServiceCapability_RPC_GET_CAPACITY] = true
}

// TestNode: which claims an instance works for, and what it does for those that no node has.
func TestNode(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, tc := range []struct {
		row    string
		s      Snapshot
		reason verdict.Reason
		want   string
	}{
		{"N-2 this node", world(onOwnNode, firstUse, annotate(names.AnnSelectedNode, "n1")), verdict.Provisioning, "Record CreateVolume"},
		{"N-2 another node", world(onOwnNode, firstUse, annotate(names.AnnSelectedNode, "n2")), verdict.ClaimElsewhere, "nothing"},
		{"N-2 another node, immediate", world(onOwnNode, immediate, annotate(names.AnnSelectedNode, "n2")), verdict.ClaimElsewhere, "nothing"},
		{"N-3 first use", world(onOwnNode, firstUse), verdict.WaitForConsumer, "wait"},
		{"N-3 no binding mode", world(onOwnNode), verdict.ClaimElsewhere, "nothing"},
		{"N-3 no class in the claim", world(onOwnNode, func(s *Snapshot) { s.Claim.Spec.StorageClassName, s.Class = nil, nil }), verdict.ClassMissing, "refuse"},
		{"N-3 F-23 off", world(onOwnNode, immediate, func(s *Snapshot) { s.Options.Node.Immediate = false }), verdict.ClaimElsewhere, "nothing"},
		{"N-4 the class does not allow this node", world(onOwnNode, immediate, allow("b")), verdict.ClaimElsewhere, "nothing"},
		{"N-4 it does", world(onOwnNode, immediate, allow("a", "b")), verdict.ClaimContested, "Compete then wait"},
		{"N-5 first seen", world(onOwnNode, immediate), verdict.ClaimContested, "Compete then wait"},
		{"N-5 not yet", world(onOwnNode, immediate, due(now.Add(1))), verdict.ClaimContested, "wait"},
		{"N-7 due", world(onOwnNode, immediate, due(now)), verdict.ClaimOwned, "OwnClaim then nothing"},
		{"N-6 due, the driver tells of its room", world(onOwnNode, immediate, due(now), tellsRoom), verdict.ClaimOwned, "CheckRoom then read"},
		{"N-7 there is room", world(onOwnNode, immediate, due(now), tellsRoom, readToOwn), verdict.ClaimOwned, "OwnClaim then nothing"},
		{"N-7 another node has it by now", world(onOwnNode, immediate, due(now), readToOwn, annotate(names.AnnSelectedNode, "n2")), verdict.ClaimElsewhere, "nothing"},
		{"N-7 bound by now", world(onOwnNode, immediate, due(now), readToOwn, bound), verdict.ClaimBound, "nothing"},
		{"N-7 being deleted by now", world(onOwnNode, immediate, due(now), readToOwn, deleting), verdict.ClaimDeleting, "nothing"},
		{"N-6 a mistake in the claim is for its owner to tell", world(onOwnNode, immediate, due(now), tellsRoom, func(s *Snapshot) {
			s.Claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{"Sometimes"}
		}), verdict.ClaimOwned, "OwnClaim then nothing"},
		{"H-27 N-14 no topology", world(onOwnNode, immediate, due(now), tellsRoom, func(s *Snapshot) { s.Driver.HasTopology = false }), verdict.ClaimOwned, "CheckRoom then read"},
		{"H-6 begun here, and another node has it by now", world(onOwnNode, immediate, pending, annotate(names.AnnSelectedNode, "n2")), verdict.Provisioning, "Record CreateVolume"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got := settled(tc.s, now)
			if got.Because().Reason != tc.reason {
				t.Errorf("reason %s (%s), want %s", got.Because().Reason, got.Because().Text(), tc.reason)
			}
			if diff := cmp.Diff(tc.want, steps(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// steps names the actions of a verdict, and what follows.
func steps(v Verdict) string {
	switch v := v.(type) {
	case nothing:
		return "nothing"
	case wait:
		return "wait"
	case refuse:
		return "refuse"
	case verdict.Read[Action]:
		return "read"
	case do:
		out := ""
		for _, a := range v.Actions {
			out += fmt.Sprintf("%T ", a)[len("provision."):]
		}
		if v.Then == nil {
			return out[:len(out)-1]
		}
		return out + "then " + steps(v.Then)
	}
	return ""
}

// H-6, N-9: a volume that was made here for a claim of another node by now is deleted again, and one
// for which there is no room goes to another node, also without topology.
func TestClaimGoesToAnotherNode(t *testing.T) {
	sent := CreateVolume{Request: &csi.CreateVolumeRequest{Name: pvName}}
	moved := world(onOwnNode, immediate, pending, annotate(names.AnnSelectedNode, "n2"))
	if got := steps(AfterCreate(moved, sent, Answer{Volume: &csi.Volume{VolumeId: "h"}})); got != "DiscardVolume Resolve then nothing" {
		t.Error("H-6:", got)
	}
	full := world(onOwnNode, immediate, annotate(names.AnnSelectedNode, "n1"), func(s *Snapshot) { s.Driver.HasTopology = false })
	if got := steps(AfterCreate(full, sent, Answer{Failure: &csispec.Failure{Code: 8, Message: "full"}})); got != "Resolve Reschedule then nothing" {
		t.Error("N-9:", got)
	}
	again := world(onOwnNode, immediate, pending, annotate(names.AnnSelectedNode, "n1"))
	got := AfterCreate(again, sent, Answer{Failure: &csispec.Failure{Code: 8, Message: "full"}})
	if steps(got) != "Note then refuse" || !strings.Contains(got.Because().Text(), "stays with its node") {
		t.Errorf("N-9: an earlier call may have created the volume here: %s %q", steps(got), got.Because().Text())
	}
}

// N-5: the delay doubles up to the most, less a part of the base that differs from node to node.
func TestDelay(t *testing.T) {
	own := NodeOptions{Name: "n1", BaseDelay: 20 * time.Second, MaxDelay: time.Minute}
	for attempts, most := range []time.Duration{20 * time.Second, 40 * time.Second, time.Minute, time.Minute, time.Minute} {
		if d := delay(own, uid, attempts); d > most || d < most-own.BaseDelay {
			t.Errorf("attempt %d: %s, want %s to %s", attempts, d, most-own.BaseDelay, most)
		}
	}
	seen := map[time.Duration]bool{}
	for i := range 100 {
		own.Name = fmt.Sprint("n", i)
		seen[delay(own, uid, 0).Truncate(time.Second)] = true
	}
	if len(seen) < 15 {
		t.Errorf("100 nodes have %d delays", len(seen))
	}
	if d := delay(NodeOptions{}, types.UID("u"), 3); d != 0 {
		t.Errorf("F-24 no delay: %s", d)
	}
}

// D-13, N-11, H-28: a volume belongs to the node that it is on.
func TestIsOnNode(t *testing.T) {
	at := func(zone string) *corev1.VolumeNodeAffinity {
		return topology.Affinity([]*csi.Topology{{Segments: map[string]string{"zone": zone}}})
	}
	for _, tc := range []struct {
		row      string
		driver   string
		affinity *corev1.VolumeNodeAffinity
		identity string
		want     bool
	}{
		{"its place", driver, at("a"), "", true},
		{"another place", driver, at("b"), "1-2-" + driver + "-n1", false},
		{"another driver", "csi.other", at("a"), "", false},
		{"no place, made here", driver, nil, "1700000000000-42-" + driver + "-n1", true},
		{"no place, made on another node", driver, nil, "1700000000000-42-" + driver + "-n11", false},
		{"no place, made by a central instance", driver, nil, "1700000000000-42-" + driver, false},
		{"no place, written by hand", driver, nil, "", false},
	} {
		pv := &corev1.PersistentVolume{}
		pv.Spec.NodeAffinity = tc.affinity
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{
			Driver: tc.driver, VolumeAttributes: map[string]string{names.AttributeProvisionerIdentity: tc.identity},
		}
		if got := IsOnNode(pv, world(onOwnNode).Options.Node, driver); got != tc.want {
			t.Errorf("%s: %v", tc.row, got)
		}
	}
	byName := &corev1.PersistentVolume{}
	byName.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
	byName.Spec.NodeAffinity = topology.Affinity([]*csi.Topology{{Segments: map[string]string{corev1.LabelHostname: "n1"}}})
	if !IsOnNode(byName, NodeOptions{Name: "n1"}, driver) || IsOnNode(byName, NodeOptions{Name: "n2"}, driver) {
		t.Error("a driver without topology, and a volume of one node")
	}
}

// N-7: the claim is written as it was read, with the node.
func TestOwnClaimHasTheNode(t *testing.T) {
	now := time.Unix(1000, 0)
	s := world(onOwnNode, immediate, due(now), readToOwn, func(s *Snapshot) { s.Claim.Labels = map[string]string{"a": "b"} })
	own := settled(s, now).(do).Actions[0].(OwnClaim)
	want := s.Claim.DeepCopy()
	want.Annotations[names.AnnSelectedNode] = "n1"
	if diff := cmp.Diff(want, own.Claim); diff != "" {
		t.Error(diff)
	}
	if s.Claim.Annotations[names.AnnSelectedNode] != "" {
		t.Error("the snapshot is changed")
	}
}
