package capacity

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// Grace is how long the capacities of a segment stay after the driver was unregistered from its last
// node, while such a node exists. A rollout of the node plugin unregisters the driver for a while, and
// without an object the scheduler would find no node for a pod in between.
const Grace = 5 * time.Minute

// Unregistered returns the labels of the nodes on which the driver is not registered.
func Unregistered(nodes []*corev1.Node, csiNodes []*storagev1.CSINode, driver string) (all []map[string]string) {
	registered := map[string]bool{}
	for _, csiNode := range csiNodes {
		registered[csiNode.Name] = slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
			return d.Name == driver
		})
	}
	for _, node := range nodes {
		if !registered[node.Name] {
			all = append(all, node.Labels)
		}
	}
	return all
}

// Missing has the segments that stay although no node registers them, and since when.
type Missing map[Segment]time.Time

// Linger returns which published segments stay for now although they are not among the found ones: a
// node without the driver has their labels, and the grace period has not passed. next is the end of the
// first of these periods; zero for none.
func (m Missing) Linger(
	published, found []Segment, unregistered []map[string]string, now time.Time,
) (stay Missing, next time.Time) {
	stay = Missing{}
	registered := map[Segment]bool{}
	for _, segment := range found {
		registered[segment] = true
	}
	without := places{nodes: unregistered, byKeys: map[string]map[Segment]bool{}}
	for _, segment := range published {
		if registered[segment] || segment == "" && len(found) > 0 || !without.has(segment) {
			continue
		}
		since, known := m[segment]
		if !known {
			since = now
		}
		stay[segment] = since // also after its end, so that it does not begin once more
		if end := since.Add(Grace); end.After(now) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return stay, next
}

// At returns the segments whose grace period has not passed.
func (m Missing) At(now time.Time) (segments []Segment) {
	for _, segment := range slices.Sorted(maps.Keys(m)) {
		if m[segment].Add(Grace).After(now) {
			segments = append(segments, segment)
		}
	}
	return segments
}

// places finds the segments that some nodes are in, by the keys of the segments: nearly all segments of a
// driver have the same.
type places struct {
	nodes  []map[string]string
	byKeys map[string]map[Segment]bool
}

func (p *places) has(segment Segment) bool {
	keys := slices.Sorted(maps.Keys(segment.Labels()))
	of := strings.Join(keys, ",")
	if p.byKeys[of] == nil {
		p.byKeys[of] = map[Segment]bool{}
		for _, labels := range p.nodes {
			part := map[string]string{}
			for _, key := range keys {
				if value, ok := labels[key]; ok {
					part[key] = value
				}
			}
			if len(part) == len(keys) {
				p.byKeys[of][NewSegment(part)] = true
			}
		}
	}
	return p.byKeys[of][segment]
}
