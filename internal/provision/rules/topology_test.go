package provision

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/internal/topology"
	"github.com/purser-csi/purser/internal/verdict"
)

func allow(values ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Class.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}},
		}}
	}
}

// inZones are nodes on which the driver is registered; "" is one on which it registered no key.
func inZones(zones ...string) func(*Snapshot) {
	return func(s *Snapshot) {
		for _, zone := range zones {
			n := topology.Node{Labels: map[string]string{"zone": zone}, Keys: []string{"zone"}}
			if zone == "" {
				n.Keys = nil
			}
			s.Nodes = append(s.Nodes, n)
		}
	}
}

func rules(r topology.Rules) func(*Snapshot) {
	return func(s *Snapshot) { s.Options.Topology = r }
}

var (
	strict    = rules(topology.Rules{Strict: true, Immediate: true})
	defaults  = rules(topology.Rules{Immediate: true})
	noPlaces  = rules(topology.Rules{})
	assertive = rules(topology.Rules{Immediate: true, Assertive: true})
)

// ordinalOne is the second claim of a StatefulSet, the first of which begins with zone a (T-21).
func ordinalOne(s *Snapshot) { s.Claim.Name = "data-logbook-1" }

// unlabelled has a node on which the driver registered a key that the Node has no label for.
func unlabelled(s *Snapshot) { s.Nodes = []topology.Node{{Keys: []string{"zone"}}} }

func keyless(s *Snapshot) {
	onNode(map[string]string{"zone": "a"}, driver)(s)
	s.CSINode.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver}}
}

// TestAccessibility is the table of section 7.2 from the objects to the request: the preferred zones,
// in their order.
func TestAccessibility(t *testing.T) {
	onB := onNode(map[string]string{"zone": "b"}, driver)
	for _, tc := range []struct {
		row    string
		s      Snapshot
		want   string
		reason verdict.Reason
	}{
		{"T-1 a driver without topology", world(allow("a"), inZones("a"), defaults), "", ""},
		{"T-10 strict", world(hasTopology, onB, inZones("a", "b"), strict), "b", ""},
		{"T-11 strict, the selected node's zone is allowed", world(hasTopology, onB, allow("a", "b"), strict), "b", ""},
		{"T-12 strict, it is not", world(hasTopology, onB, allow("a"), strict), "", verdict.ClassInvalid},
		{"T-13 the selected node's zone first", world(hasTopology, onB, inZones("c", "a", "b"), defaults), "b c a", ""},
		{"T-14 allowed, the selected node's zone first", world(hasTopology, onB, allow("a", "b"), inZones("c"), defaults), "b a", ""},
		{"T-14 the selected node's zone is not allowed", world(hasTopology, onB, allow("a"), defaults), "", verdict.ClassInvalid},
		{"T-15 allowed, by hash", world(hasTopology, ordinalOne, allow("b", "a"), inZones("c"), defaults), "b a", ""},
		{"T-16 all zones, by hash", world(hasTopology, ordinalOne, inZones("c", "a", "b"), defaults), "b c a", ""},
		{"T-17 the driver chooses", world(hasTopology, inZones("a"), noPlaces), "", ""},
		{"T-18 allowed has only empty entries", world(hasTopology, inZones("a"), defaults, func(s *Snapshot) {
			s.Class.AllowedTopologies = make([]corev1.TopologySelectorTerm, 2)
		}), "", ""},
		{"T-22 no node has a key", world(hasTopology, inZones("", ""), defaults), "", ""},
		{"T-22 the selected node has no key, nor has another", world(hasTopology, keyless, inZones(""), strict), "", ""},
		{"T-22 the selected node has no key, others have", world(hasTopology, keyless, inZones("", "a"), strict), "", verdict.NodeTopologyUnknown},
		{"T-24 the driver is on no node", world(hasTopology, defaults), "", ""},
		{"T-24 no node has the labels", world(hasTopology, defaults, unlabelled), "", verdict.TopologyUnknown},
		{"T-30 a bound", world(hasTopology, ordinalOne, inZones("a", "b", "c"), rules(topology.Rules{Immediate: true, MaxTerms: 1})), "b", ""},
		{"U-32 allowed filters the nodes' zones", world(hasTopology, allow("a", "x"), inZones("a", "b"), assertive), "a", ""},
		{"C-22 immediate binding, and a node all the same", world(hasTopology, onB, inZones("a", "b"), defaults), "b a", ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			requirement, finding := accessibility(tc.s)
			var got []string
			for _, place := range requirement.GetPreferred() {
				got = append(got, place.GetSegments()["zone"])
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
			if (finding == nil) != (tc.reason == "") || finding != nil && finding.Reason != tc.reason {
				t.Errorf("finding %+v, want reason %q", finding, tc.reason)
			}
		})
	}
}

// T-30: the nodes of the cluster are read only where the request depends on them.
func TestNeedsNodes(t *testing.T) {
	onB := onNode(map[string]string{"zone": "b"}, driver)
	for _, tc := range []struct {
		row         string
		s           Snapshot
		needs, lack bool
	}{
		{"T-1", world(defaults), false, false},
		{"T-10", world(hasTopology, onB, strict), false, false},
		{"T-13", world(hasTopology, onB, defaults, inZones("b")), true, false},
		{"T-14", world(hasTopology, onB, allow("b"), defaults), false, false},
		{"T-16", world(hasTopology, defaults, inZones("a")), true, false},
		{"T-16 no node has a key", world(hasTopology, defaults, inZones("")), true, true},
		{"T-17", world(hasTopology, noPlaces), false, false},
		{"T-22 no key on the selected node", world(hasTopology, keyless, strict, inZones("")), true, true},
		{"T-23 the selected node has no place", world(hasTopology, onNode(nil, driver), defaults), false, false},
		{"U-32", world(hasTopology, allow("a"), assertive, inZones("a")), true, false},
		{"C-50 no class", world(hasTopology, defaults, func(s *Snapshot) { s.Class = nil }), false, false},
	} {
		if got := needsNodes(tc.s); got != tc.needs {
			t.Errorf("%s: needs nodes %v, want %v", tc.row, got, tc.needs)
		}
		if got := LacksKeys(tc.s.With(verdict.Ref{What: ReadNodes})); got != tc.lack {
			t.Errorf("%s: lacks keys %v, want %v", tc.row, got, tc.lack)
		}
	}
}

// H-8, H-9: the event names the node whose selection is removed. A claim without one is left alone.
func TestRescheduleNamesTheNode(t *testing.T) {
	gone := settled(world(firstUse, hasTopology, defaults, annotate(names.AnnSelectedNode, "n1")), time.Unix(1000, 0))
	if text := gone.Because().Text(); !strings.Contains(text, `"n1"`) || !strings.Contains(text, "is removed") {
		t.Errorf("H-8: %s", text)
	}
	if _, ok := settled(world(hasTopology, defaults, unlabelled, failed(failuresBeforeReschedule)), time.Unix(1000, 0)).(refuse); !ok {
		t.Error("T-24: a claim without a selected node is given back to the scheduler")
	}
}
