package reclaim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Place is a node label with its value. The key [FieldNodeName] stands for the node's name.
type Place struct{ Key, Value string }

// FieldNodeName is the field of a node that a node affinity may name.
const FieldNodeName = "metadata.name"

// Nodes maps the name of each existing node to its labels.
type Nodes map[string]map[string]string

// RemovedPlaces returns the places in a node affinity if all its terms name nodes and none of these
// exists (N-12); nil otherwise. A term that names a zone, or nothing, may match a node again, so
// its volume is kept.
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

// placesOf returns the nodes that a term names; none if it names something else.
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

// areNamedBy reports whether each value of a label key is one node. For a driver's own key that is
// so if nodes have the label, each with its own name as the value.
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

// have reports whether a node has the label, or has the value as its name.
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

// Absences stores since when the nodes of objects do not exist. The zero value is empty.
type Absences struct{ since map[types.UID]time.Time }

// Due returns the uids of gone that were in it in each call for at least the duration. An object
// that is not in gone starts over.
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
