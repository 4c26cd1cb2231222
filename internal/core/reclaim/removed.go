package reclaim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Place is a label that one node has, with its value. The key [FieldNodeName] is the name of the
// node.
type Place struct{ Key, Value string }

// FieldNodeName is the field of a node that a node affinity may name.
const FieldNodeName = "metadata.name"

// Nodes are the labels of the nodes that exist, by the name of the node.
type Nodes map[string]map[string]string

// RemovedPlaces returns the places of a volume if its node affinity names nodes, and none of these
// exists (N-12); nil otherwise. A term that names a zone, or nothing, may become true of a node
// again, so a volume with such a term stays.
func RemovedPlaces(affinity *corev1.VolumeNodeAffinity, nodes Nodes) (places []Place) {
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		named := placesOf(term, nodes)
		if len(named) == 0 || slices.ContainsFunc(named, nodes.have) {
			return nil
		}
		places = append(places, named...)
	}
	return places
}

// placesOf returns the nodes that a term names; none when it names something else.
func placesOf(term corev1.NodeSelectorTerm, nodes Nodes) (places []Place) {
	for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
		if r.Operator != corev1.NodeSelectorOpIn || !nodes.areNamedBy(r.Key) {
			continue
		}
		for _, value := range r.Values {
			places = append(places, Place{r.Key, value})
		}
	}
	return places
}

// areNamedBy reports whether the values of a key are single nodes. Of a driver's own key that is known
// when nodes have it, each with its name as the value.
func (n Nodes) areNamedBy(key string) bool {
	if key == FieldNodeName || key == corev1.LabelHostname {
		return true
	}
	known := false
	for name, labels := range n {
		value, has := labels[key]
		if has && value != name {
			return false
		}
		known = known || has
	}
	return known
}

// have reports whether a node has the place, or is named as the place is.
func (n Nodes) have(place Place) bool {
	if _, is := n[place.Value]; is {
		return true
	}
	for _, labels := range n {
		if value, has := labels[place.Key]; has && value == place.Value {
			return true
		}
	}
	return false
}

// Absences remembers since when the nodes of objects have been gone. The zero value knows of none.
type Absences struct{ since map[types.UID]time.Time }

// Due returns which of the objects whose nodes are gone now have been so for some time without a
// break. Of the others it forgets what it knew.
func (a *Absences) Due(gone []types.UID, now time.Time, after time.Duration) (due map[types.UID]bool) {
	since := make(map[types.UID]time.Time, len(gone))
	due = map[types.UID]bool{}
	for _, uid := range gone {
		first, known := a.since[uid]
		if !known {
			first = now
		}
		since[uid] = first
		if now.Sub(first) >= after {
			due[uid] = true
		}
	}
	a.since = since
	return due
}
