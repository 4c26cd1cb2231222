package topology

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// ErrNoKeys is returned for a driver that announces topology while no node has one of its topology
// keys, as with ceph-csi. The volume can be created without a requirement.
var ErrNoKeys = errors.New("the driver announces topology, and no node has a topology key that it registered")

// ErrNoNode is returned when topology keys are registered and no node has the labels for them (T-24).
var ErrNoNode = errors.New("no node has labels for the topology keys that the driver registered")

// Node is the part of one node that aggregation needs.
type Node struct {
	Labels map[string]string // of the Node
	Keys   []string          // that the driver registered in the CSINode of the same name
}

// Rules are the settings that change which terms are requested.
type Rules struct {
	Strict    bool // --strict-topology: with a selected node, its topology only (T-10)
	Immediate bool // --immediate-topology: without a selected node, the topology of all nodes (T-16)
	// Assertive makes allowedTopologies a filter of the nodes' topology, instead of the terms
	// themselves (U-32).
	Assertive bool
	MaxTerms  int // bound of the terms in a request (T-30); 0 for none
}

// Claim is the input for the requirement of one claim.
type Claim struct {
	Name     string                        // of the claim; it spreads a StatefulSet (T-21)
	Selected map[string]string             // segments of the selected node, as OfNode returns them; nil for none
	Allowed  []corev1.TopologySelectorTerm // allowedTopologies of the class
	Nodes    []Node                        // only read when NeedsNodes
}

// NeedsNodes reports whether the requirement of the claim depends on nodes other than the selected
// one.
func NeedsNodes(claim Claim, rules Rules) bool {
	hasAllowed := len(claim.Allowed) > 0 && !rules.Assertive
	if claim.Selected != nil {
		return !rules.Strict && !hasAllowed
	}
	if len(claim.Allowed) > 0 {
		return rules.Assertive
	}
	return rules.Immediate
}

// Requirement returns the accessibility requirement of a CreateVolume request, or nil if the driver
// may choose (T-10 to T-18). The error is ErrNoKeys, ErrNoNode, or says which place
// allowedTopologies excludes.
func Requirement(claim Claim, rules Rules) (*csi.TopologyRequirement, error) {
	allowed := flatten(claim.Allowed)
	if len(claim.Allowed) > 0 && len(allowed) == 0 { // T-18
		return nil, nil
	}
	selected := newTerm(claim.Selected)
	if claim.Selected != nil && len(allowed) > 0 && !slices.ContainsFunc(allowed, within(selected)) { // T-12, T-14
		return nil, fmt.Errorf("allowedTopologies do not include the topology of the selected node, %s", selected)
	}
	requisite, err := requisiteTerms(claim, rules, selected, allowed)
	if err != nil || len(requisite) == 0 {
		return nil, err
	}
	requisite = sortTerms(requisite)
	preferred := prefer(requisite, claim, selected)
	if rules.MaxTerms > 0 && len(preferred) > rules.MaxTerms {
		preferred = preferred[:rules.MaxTerms]
		requisite = sortTerms(slices.Clone(preferred))
	}
	return &csi.TopologyRequirement{Requisite: messages(requisite), Preferred: messages(preferred)}, nil
}

// requisiteTerms returns the terms of a requirement, unsorted; none if the driver may choose.
func requisiteTerms(claim Claim, rules Rules, selected term, allowed []term) ([]term, error) {
	switch {
	case claim.Selected != nil && rules.Strict: // T-10, T-11
		return []term{selected}, nil
	case len(allowed) > 0 && !rules.Assertive: // T-14, T-15
		return allowed, nil
	case !NeedsNodes(claim, rules): // T-17
		return nil, nil
	}
	terms, err := aggregate(claim, selected)
	if err != nil || len(allowed) == 0 { // T-13, T-16
		return terms, err
	}
	terms = slices.DeleteFunc(terms, func(t term) bool { return !slices.ContainsFunc(allowed, within(t)) }) // U-32
	if len(terms) == 0 {
		return nil, errors.New("allowedTopologies do not include the topology of any node")
	}
	return terms, nil
}

// prefer rotates the sorted terms: the first that is a subset of the selected node's topology comes
// first (T-13). Without a selected node the name of the claim decides which is first (T-15, T-16).
func prefer(sorted []term, claim Claim, selected term) []term {
	shift := Shift(claim.Name, len(sorted))
	if claim.Selected != nil {
		shift = max(0, slices.IndexFunc(sorted, within(selected)))
	}
	return slices.Concat(sorted[shift:], sorted[:shift])
}

// aggregate returns the topology of all nodes: for the keys of the selected node (T-13), or for
// every distinct set of keys that the driver registered (T-16, T-24). A selected node counts even
// if the list of nodes lacks it.
func aggregate(claim Claim, selected term) ([]term, error) {
	if claim.Selected != nil {
		var keys []string
		for _, s := range selected {
			keys = append(keys, s.key)
		}
		return append(withKeys(claim.Nodes, keys), selected), nil
	}
	sets := keySets(claim.Nodes)
	if len(sets) == 0 {
		return nil, ErrNoKeys
	}
	var terms []term
	for _, keys := range sets {
		terms = append(terms, withKeys(claim.Nodes, keys)...)
	}
	if len(terms) == 0 {
		return nil, ErrNoNode
	}
	return terms, nil
}

// keySets returns the distinct sets of keys, each sorted. A node without keys adds none.
func keySets(nodes []Node) [][]string {
	var sets [][]string
	for _, n := range nodes {
		if len(n.Keys) > 0 {
			sets = append(sets, slices.Compact(slices.Sorted(slices.Values(n.Keys))))
		}
	}
	slices.SortFunc(sets, slices.Compare)
	return slices.CompactFunc(sets, slices.Equal)
}

// withKeys returns a term for each node whose driver registered at least the keys and which has a
// label for each (T-24). Cordoned and NotReady nodes count (T-29).
func withKeys(nodes []Node, keys []string) []term {
	var terms []term
	seen := map[string]bool{}
	for _, n := range nodes {
		t, ok := n.term(keys)
		if id := t.String(); ok && !seen[id] {
			seen[id] = true
			terms = append(terms, t)
		}
	}
	return terms
}

func (n Node) term(keys []string) (term, bool) {
	t := make(term, 0, len(keys))
	for _, key := range keys {
		value, ok := n.Labels[key]
		if !ok || !slices.Contains(n.Keys, key) {
			return nil, false
		}
		t = append(t, segment{key, value})
	}
	return t, true
}

func within(place term) func(term) bool {
	return func(t term) bool { return t.isSubset(place) }
}

// String returns the term as quoted pairs, for messages and as an identity.
func (t term) String() string {
	pairs := make([]string, 0, len(t))
	for _, s := range t {
		pairs = append(pairs, fmt.Sprintf("%s=%q", s.key, s.value))
	}
	return strings.Join(pairs, ",")
}

// Shift returns which of n sorted terms is preferred first for a claim (T-21). Claims of one
// StatefulSet share the hash and differ in their ordinal, so that they follow each other through
// the terms. n must be positive.
func Shift(claimName string, n int) int {
	set, ordinal := splitOrdinal(claimName)
	hash := fnv.New32()
	hash.Write([]byte(set))
	return int(
		(hash.Sum32() + ordinal) % uint32(n),
	) //nolint:gosec // the sum wraps on purpose, as in the external-provisioner
}

// splitOrdinal returns the name of the StatefulSet and the ordinal in the name of a claim, as in
// "data-web-3"; the whole name and 0 for a name without a 32-bit number at its end.
func splitOrdinal(name string) (set string, ordinal uint32) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 {
		return name, 0
	}
	number, err := strconv.ParseUint(name[dash+1:], 10, 32)
	if err != nil {
		return name, 0
	}
	set = name[:dash]
	return set[strings.LastIndexByte(set, '-')+1:], uint32(number)
}
