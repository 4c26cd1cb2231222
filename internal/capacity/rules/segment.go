package capacity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/topology"
)

// Segment is a set of topology labels as a comparable string: key=value pairs, sorted by key and
// joined by commas. Labels contain neither "=" nor ",". The empty segment is the whole cluster.
//
// Upstream's keys contain pointers and are never equal. So its queue grows (S-16), and it never
// finds the object of the empty segment again (S-11).
type Segment string

// NewSegment returns the segment with the labels.
func NewSegment(labels map[string]string) Segment {
	pairs := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	return Segment(strings.Join(pairs, ","))
}

// Labels returns the labels of the segment; nil for the whole cluster.
func (s Segment) Labels() map[string]string {
	if s == "" {
		return nil
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(string(s), ",") {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	return labels
}

// String returns the segment as text for messages.
func (s Segment) String() string {
	if s == "" {
		return "the whole cluster"
	}
	return string(s)
}

// overlaps reports whether a node can be in both segments: no key has two values.
func (s Segment) overlaps(other Segment) bool {
	labels, others := s.Labels(), other.Labels()
	for key, value := range labels {
		if has, ok := others[key]; ok && has != value {
			return false
		}
	}
	return true
}

// ofSelector returns the segment of an object's nodeTopology. ok is false if the selector has
// expressions, which no provisioner writes.
func ofSelector(selector *metav1.LabelSelector) (segment Segment, ok bool) {
	if selector == nil {
		return "", true
	}
	return NewSegment(selector.MatchLabels), len(selector.MatchExpressions) == 0
}

// Segments returns the segments of all nodes where the driver is registered, sorted and without
// duplicates (S-2). A node that lacks one of the driver's topology labels is skipped.
//
// A node that registered the driver without topology keys gives the segment of the whole cluster.
// That segment is dropped if other nodes have keys: an object for the whole cluster would hide that
// a segment is full.
func Segments(nodes []*corev1.Node, csiNodes []*storagev1.CSINode, driver string) []Segment {
	byName := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byName[node.Name] = node
	}
	found := map[Segment]bool{}
	for _, csiNode := range csiNodes {
		node := byName[csiNode.Name]
		if node == nil {
			continue
		}
		if labels, err := topology.OfNode(node, csiNode, driver); err == nil {
			found[NewSegment(labels)] = true
		}
	}
	if len(found) > 1 {
		delete(found, "")
	}
	return slices.Sorted(maps.Keys(found))
}

// OfAffinity returns the segments from which a volume is reachable. A term with other operators
// than In, or with several values, is no segment and is left out.
func OfAffinity(affinity *corev1.VolumeNodeAffinity) []Segment {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	var segments []Segment
	for _, term := range affinity.Required.NodeSelectorTerms {
		labels := map[string]string{}
		for _, e := range term.MatchExpressions {
			if e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
				labels[e.Key] = e.Values[0]
			}
		}
		if len(labels) > 0 && len(labels) == len(term.MatchExpressions) {
			segments = append(segments, NewSegment(labels))
		}
	}
	return segments
}
