package ui

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// mapBody is what the map shows: the answer to a search, one node, the claims without
// a pod, or the zones with their nodes.
type mapBody struct {
	Query    string
	Found    []found
	MoreHits int

	Node   string
	Loose  bool // the claims without a pod
	Pods   []podView
	Claims []claimView
	More   int // pods or claims that are not shown

	Zones      []zoneView
	LooseCount int
	Pools      []poolView
	MorePools  int
}

const (
	mostFound = 200
	mostPods  = 500
	mostPools = 60
)

// zoneView is a zone with its nodes.
type zoneView struct {
	Name    string // empty for nodes without a zone
	ID      string
	Pods    int
	Volumes int
	Nodes   []nodeView
}

// nodeView is a node with what it has of volumes.
type nodeView struct {
	Name    string
	Ready   bool
	Pods    int // with volumes
	Volumes int // attached
	Limits  []limitView
	Stuck   int
}

// limitView is how many volumes of a driver a node may have.
type limitView struct {
	Driver string
	Used   int
	Most   int
}

// podView is a pod with its claims.
type podView struct {
	Ref    explain.Ref
	Phase  string
	Stuck  bool
	Claims []claimView
}

// claimView is a claim with its volume and its copies.
type claimView struct {
	Ref       explain.Ref
	Phase     string
	Size      string
	Class     string
	Volume    *explain.Ref
	Handle    string
	Stuck     bool
	Snapshots []explain.Ref
	Clones    []explain.Ref // claims that were made from it or from its snapshots
}

// found is an object that a search has found.
type found struct {
	Ref   explain.Ref
	By    string // what of it matches
	Stuck bool
}

func mapPage(s *State, query url.Values) (page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := pageOf(s, "map", "Map")
	p.Notes, p.Unread = s.Notes, s.boardLocked().Unread
	m := newMapper(s)
	body := mapBody{Query: strings.TrimSpace(query.Get("q")), Node: query.Get("node"), Loose: query.Get("loose") != ""}
	switch {
	case body.Query != "":
		p.Title = "Search: " + body.Query
		body.Found, body.MoreHits = m.search(body.Query)
	case body.Node != "":
		p.Title = "Node " + body.Node
		body.Pods, body.More = m.podsOn(body.Node)
	case body.Loose:
		p.Title = "Claims without a pod"
		body.Claims, body.More = m.loose(mostPods)
	default:
		body.Zones = m.zones()
		_, more := m.loose(0)
		body.LooseCount = more
		body.Pools, body.MorePools = poolsOf(s.Cluster)
	}
	p.Body = body
	return p, nil
}

// mapper finds what is around the objects of a state.
type mapper struct {
	c         *explain.Cluster
	stuck     map[explain.Ref]bool
	claims    map[name]*corev1.PersistentVolumeClaim
	volumes   map[string]*corev1.PersistentVolume
	used      map[name]bool            // claims that a pod names
	snapshots map[name][]explain.Ref   // by claim
	clones    map[name][]explain.Ref   // by claim
	pods      map[string][]*corev1.Pod // with volumes, by node
}

func newMapper(s *State) *mapper {
	m := &mapper{
		c: s.Cluster, stuck: map[explain.Ref]bool{}, claims: map[name]*corev1.PersistentVolumeClaim{},
		volumes: map[string]*corev1.PersistentVolume{}, used: map[name]bool{}, snapshots: map[name][]explain.Ref{},
		clones: map[name][]explain.Ref{}, pods: map[string][]*corev1.Pod{},
	}
	for _, c := range s.boardLocked().Causes {
		for _, ref := range c.Objects {
			m.stuck[ref] = true
		}
	}
	for _, o := range m.c.Claims {
		m.claims[name{o.Namespace, o.Name}] = o
	}
	for _, o := range m.c.Volumes {
		m.volumes[o.Name] = o
	}
	for _, pod := range m.c.Pods {
		claims := protection.ClaimNames(pod)
		for _, claim := range claims {
			m.used[name{pod.Namespace, claim}] = true
		}
		if len(claims) > 0 && pod.Spec.NodeName != "" {
			m.pods[pod.Spec.NodeName] = append(m.pods[pod.Spec.NodeName], pod)
		}
	}
	m.copies()
	return m
}

// copies notes snapshots and clones by the claim that they are of.
func (m *mapper) copies() {
	of := map[name]name{} // claims by snapshot
	for _, s := range m.c.Snapshots {
		if claim := s.Spec.Source.PersistentVolumeClaimName; claim != nil {
			key := name{s.Namespace, *claim}
			of[name{s.Namespace, s.Name}] = key
			ref := explain.Ref{Kind: explain.Snapshot, Namespace: s.Namespace, Name: s.Name}
			m.snapshots[key] = append(m.snapshots[key], ref)
		}
	}
	for _, claim := range m.c.Claims {
		from := claim.Spec.DataSourceRef
		if from == nil {
			continue
		}
		source := name{claim.Namespace, from.Name}
		if from.Namespace != nil {
			source.namespace = *from.Namespace
		}
		if from.Kind == string(explain.Snapshot) {
			source = of[source]
		}
		ref := explain.Ref{Kind: explain.Claim, Namespace: claim.Namespace, Name: claim.Name}
		m.clones[source] = append(m.clones[source], ref)
	}
}

// zones returns the nodes by their zones.
func (m *mapper) zones() (all []zoneView) {
	attached := map[string]map[string]int{} // by node and driver
	for _, va := range m.c.Attachments {
		if attached[va.Spec.NodeName] == nil {
			attached[va.Spec.NodeName] = map[string]int{}
		}
		attached[va.Spec.NodeName][va.Spec.Attacher]++
	}
	limits := map[string][]limitView{}
	for _, n := range m.c.CSINodes {
		for _, d := range n.Spec.Drivers {
			if d.Allocatable != nil && d.Allocatable.Count != nil {
				limit := limitView{d.Name, attached[n.Name][d.Name], int(*d.Allocatable.Count)}
				limits[n.Name] = append(limits[n.Name], limit)
			}
		}
	}
	stuck := map[string]int{}
	where := newPlaces(m.c)
	for ref := range m.stuck {
		stuck[where.of(ref).node]++
	}
	zones := map[string]*zoneView{}
	for _, n := range m.c.Nodes {
		zone := n.Labels[corev1.LabelTopologyZone]
		z := zones[zone]
		if z == nil {
			z = &zoneView{Name: zone, ID: "zone-" + idOf(zone)}
			zones[zone] = z
		}
		v := nodeView{
			Name: n.Name, Ready: isReady(n), Pods: len(m.pods[n.Name]),
			Limits: limits[n.Name], Stuck: stuck[n.Name],
		}
		for _, count := range attached[n.Name] {
			v.Volumes += count
		}
		z.Pods, z.Volumes = z.Pods+v.Pods, z.Volumes+v.Volumes
		z.Nodes = append(z.Nodes, v)
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		all = append(all, *zones[zone])
	}
	return all
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// podsOn returns the pods of a node that have volumes.
func (m *mapper) podsOn(node string) (all []podView, more int) {
	pods := m.pods[node]
	for _, pod := range firstOf(mostPods, pods) {
		ref := explain.Ref{Kind: explain.Pod, Namespace: pod.Namespace, Name: pod.Name}
		v := podView{Ref: ref, Phase: string(pod.Status.Phase), Stuck: m.stuck[ref]}
		for _, claim := range protection.ClaimNames(pod) {
			v.Claims = append(v.Claims, m.claim(name{pod.Namespace, claim}))
		}
		all = append(all, v)
	}
	return all, len(pods) - len(all)
}

// loose returns claims that no pod names, at most so many.
func (m *mapper) loose(most int) (all []claimView, more int) {
	for _, claim := range m.c.Claims {
		key := name{claim.Namespace, claim.Name}
		switch {
		case m.used[key]:
		case len(all) >= most:
			more++
		default:
			all = append(all, m.claim(key))
		}
	}
	return all, more
}

func (m *mapper) claim(key name) claimView {
	ref := explain.Ref{Kind: explain.Claim, Namespace: key.namespace, Name: key.name}
	v := claimView{
		Ref: ref, Phase: "absent", Stuck: m.stuck[ref], Snapshots: m.snapshots[key], Clones: m.clones[key],
	}
	claim := m.claims[key]
	if claim == nil {
		return v
	}
	v.Phase = cmp.Or(string(claim.Status.Phase), "new")
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if has, ok := claim.Status.Capacity[corev1.ResourceStorage]; ok {
		size = has
	}
	v.Size = size.String()
	if claim.Spec.StorageClassName != nil {
		v.Class = *claim.Spec.StorageClassName
	}
	if claim.Spec.VolumeName != "" {
		v.Volume = &explain.Ref{Kind: explain.Volume, Name: claim.Spec.VolumeName}
		if pv := m.volumes[claim.Spec.VolumeName]; pv != nil && pv.Spec.CSI != nil {
			v.Handle = pv.Spec.CSI.VolumeHandle
		}
	}
	return v
}

// search returns the objects whose name, handle or label has a text in it; whole names first.
func (m *mapper) search(text string) (all []found, more int) {
	text = strings.ToLower(text)
	has := func(value string) bool { return strings.Contains(strings.ToLower(value), text) }
	handles := map[explain.Ref]string{}
	for _, pv := range m.c.Volumes {
		if pv.Spec.CSI != nil {
			handles[explain.Ref{Kind: explain.Volume, Name: pv.Name}] = pv.Spec.CSI.VolumeHandle
		}
	}
	for _, content := range m.c.Contents {
		if content.Status != nil && content.Status.SnapshotHandle != nil {
			handles[explain.Ref{Kind: explain.Content, Name: content.Name}] = *content.Status.SnapshotHandle
		}
	}
	for _, o := range m.c.Objects() {
		hit := found{Ref: o.Ref, Stuck: m.stuck[o.Ref]}
		switch handle := handles[o.Ref]; {
		case has(o.Ref.Name), has(o.Ref.Namespace + "/" + o.Ref.Name):
			hit.By = "name"
		case handle != "" && has(handle):
			hit.By = "handle " + handle
		default:
			hit.By = labelWith(o.Labels, has)
		}
		if hit.By != "" && hasPage(o.Ref.Kind) {
			all = append(all, hit)
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(a.rank(text), b.rank(text)) })
	return firstOf(mostFound, all), max(0, len(all)-mostFound)
}

func (f found) rank(text string) int {
	switch {
	case strings.EqualFold(f.Ref.Name, text):
		return 0
	case f.By == "name":
		return 1
	}
	return 2
}

// labelWith returns the first label, as KEY=VALUE, that has a text in it; empty for none.
func labelWith(labels map[string]string, has func(string) bool) string {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if text := fmt.Sprintf("%s=%s", key, labels[key]); has(text) {
			return "label " + text
		}
	}
	return ""
}
