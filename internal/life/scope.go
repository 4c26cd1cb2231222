package life

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	protection "github.com/purser-csi/purser/internal/protection/rules"
)

// StateFunc returns the cluster after the first n changes at a time.
type StateFunc func(n int, now time.Time) *explain.Cluster

// scope selects the objects of a large source that explanations of one life look at. Of the kinds of
// which each volume has objects, it keeps those that are related to the life; of the others all.
type scope struct {
	claims, pods, snapshots    map[types.NamespacedName]bool
	volumes, handles, contents map[string]bool
	wide                       bool // all claims, volumes, pods and attachments: what a scheduler looks at
}

// scopeOf returns the scope of a life.
func (h *History) scopeOf(v *volume, subject explain.Ref) *scope {
	s := &scope{
		claims: map[types.NamespacedName]bool{}, pods: map[types.NamespacedName]bool{},
		snapshots: map[types.NamespacedName]bool{},
		volumes:   map[string]bool{}, handles: map[string]bool{}, contents: map[string]bool{},
	}
	if subject.Kind == explain.Claim {
		s.claims[types.NamespacedName{Namespace: subject.Namespace, Name: subject.Name}] = true
	} else {
		s.volumes[subject.Name] = true
	}
	if claim := v.claimObject; claim != nil {
		s.volumes[claim.Spec.VolumeName] = true
		if source := claim.Spec.DataSource; source != nil {
			of := types.NamespacedName{Namespace: claim.Namespace, Name: source.Name}
			s.claims[of], s.snapshots[of] = true, true
		}
	}
	for _, id := range v.pods {
		if pod, ok := h.last(id).Object.(*corev1.Pod); ok {
			s.pods[keyOf(pod)] = true
			for _, name := range protection.ClaimNames(pod) {
				s.claims[types.NamespacedName{Namespace: pod.Namespace, Name: name}] = true
			}
		}
	}
	for _, pair := range v.snapshots {
		s.snapshots[types.NamespacedName{Namespace: pair.snapshot.Namespace, Name: pair.snapshot.Name}] = true
		if pair.content != (identity{}) {
			s.contents[pair.content.Name] = true
		}
	}
	h.addVolumes(s)
	return s
}

// addVolumes adds the volumes of the claims, and the handles of all volumes, to a scope.
func (h *History) addVolumes(s *scope) {
	var among []*versions
	for claim := range s.claims {
		among = append(among, h.relatives(volumesOfClaim, claim.Namespace, claim.Name)...)
	}
	for name := range s.volumes {
		if v := h.names[explain.Ref{Kind: explain.Volume, Name: name}]; v != nil {
			among = append(among, v)
		}
	}
	for _, v := range among {
		for _, found := range h.among(v) {
			pv, ok := h.last(found.identity).Object.(*corev1.PersistentVolume)
			if !ok || !s.volumes[pv.Name] && !s.isOfClaim(pv) {
				continue
			}
			s.volumes[pv.Name] = true
			if pv.Spec.CSI != nil {
				s.handles[pv.Spec.CSI.VolumeHandle] = true
			}
		}
	}
}

func (s *scope) isOfClaim(pv *corev1.PersistentVolume) bool {
	of := pv.Spec.ClaimRef
	return of != nil && s.claims[types.NamespacedName{Namespace: of.Namespace, Name: of.Name}]
}

func keyOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// selection returns the objects in a scope.
func (x *Index) selection(s *scope) Selection {
	chosen := map[explain.Kind][]*versions{
		explain.Claim: x.claimsIn(s), explain.Volume: x.volumesIn(s), explain.Pod: x.podsIn(s),
		explain.Attachment: x.attachmentsIn(s), explain.Snapshot: x.snapshotsIn(s), explain.Content: x.contentsIn(s),
		explain.Event: x.eventsIn(s),
	}
	found := Selection{index: x}
	for _, kind := range slices.Sorted(maps.Keys(x.kinds)) {
		some, isChosen := chosen[kind]
		if !isChosen || s.wide && slices.Contains(scheduled, kind) {
			found.objects = append(found.objects, x.kinds[kind].sorted()...)
			continue
		}
		slices.SortFunc(some, byName)
		found.objects = append(found.objects, slices.Compact(some)...)
	}
	return found
}

// scheduled are the kinds of which a scheduler looks at all objects.
var scheduled = []explain.Kind{explain.Claim, explain.Volume, explain.Pod, explain.Attachment}

// appendNamed appends the objects of a kind with some names, as far as the index has them.
func (x *Index) appendNamed(to []*versions, kind explain.Kind, names map[types.NamespacedName]bool) []*versions {
	for name := range names {
		if v := x.names[explain.Ref{Kind: kind, Namespace: name.Namespace, Name: name.Name}]; v != nil {
			to = append(to, v)
		}
	}
	return to
}

// claimsIn returns claims. One with a source may be what keeps a claim or a snapshot of the life.
func (x *Index) claimsIn(s *scope) []*versions {
	return x.appendNamed(slices.Clone(x.relatives(claimsWithSource, "", "")), explain.Claim, s.claims)
}

// volumesIn returns volumes. A claim may get one that has none.
func (x *Index) volumesIn(s *scope) []*versions {
	all := x.appendNamed(slices.Clone(x.relatives(unclaimedVolumes, "", "")), explain.Volume, unspaced(s.volumes))
	for handle := range s.handles {
		all = append(all, x.relatives(volumesOfHandle, "", handle)...)
	}
	return all
}

func (x *Index) podsIn(s *scope) []*versions {
	all := x.appendNamed(slices.Clone(x.relatives(podsOfDrivers, "", "")), explain.Pod, s.pods)
	for claim := range s.claims {
		all = append(all, x.relatives(podsOfClaim, claim.Namespace, claim.Name)...)
	}
	return all
}

func (x *Index) attachmentsIn(s *scope) (all []*versions) {
	for volume := range s.volumes {
		all = append(all, x.relatives(attachmentsOfVolume, "", volume)...)
	}
	return all
}

func (x *Index) snapshotsIn(s *scope) []*versions {
	all := x.appendNamed(nil, explain.Snapshot, s.snapshots)
	for claim := range s.claims {
		all = append(all, x.relatives(snapshotsOfClaim, claim.Namespace, claim.Name)...)
	}
	return all
}

func (x *Index) contentsIn(s *scope) []*versions {
	all := x.appendNamed(nil, explain.Content, unspaced(s.contents))
	for snapshot := range s.snapshots {
		all = append(all, x.relatives(contentsOfSnapshot, snapshot.Namespace, snapshot.Name)...)
	}
	return all
}

// eventsIn returns the events about the objects of the scope, and those about objects of other kinds.
func (x *Index) eventsIn(s *scope) []*versions {
	all := slices.Clone(x.relatives(otherEvents, "", ""))
	for kind, names := range map[explain.Kind]map[types.NamespacedName]bool{
		explain.Claim: s.claims, explain.Pod: s.pods, explain.Snapshot: s.snapshots,
		explain.Volume: unspaced(s.volumes), explain.Content: unspaced(s.contents),
	} {
		for name := range names {
			about := explain.Ref{Kind: kind, Namespace: name.Namespace, Name: name.Name}
			for _, n := range x.events[about] {
				all = append(all, x.names[refOf(x.changes[n])])
			}
		}
	}
	return all
}

// unspaced returns the names of objects that are in no namespace.
func unspaced(names map[string]bool) map[types.NamespacedName]bool {
	all := make(map[types.NamespacedName]bool, len(names))
	for name := range names {
		all[types.NamespacedName{Name: name}] = true
	}
	return all
}

// narrowed returns the clusters of one life in a large source: the related objects, and for a time at which
// a pod of the life has no node all objects that a scheduler looks at.
func (b *builder) narrowed(subject explain.Ref) StateFunc {
	switch {
	case b.States == nil:
		return nil
	case !b.Large:
		return b.States(b.All())
	}
	near := b.scopeOf(b.volume, subject)
	wide := *near
	wide.wide = true
	few, all := b.States(b.selection(near)), StateFunc(nil)
	return func(n int, now time.Time) *explain.Cluster {
		if b.brief || !b.isUnscheduled(n) {
			return few(n, now)
		}
		if all == nil {
			all = b.States(b.selection(&wide))
		}
		b.wide++
		return all(n, now)
	}
}

// isUnscheduled reports whether a pod of the life has no node after the first n changes.
func (b *builder) isUnscheduled(n int) bool {
	for _, id := range b.volume.pods {
		versions := b.versions(id)
		i, _ := slices.BinarySearch(versions, n)
		if i == 0 {
			continue
		}
		c := b.changes[versions[i-1]]
		if pod, ok := c.Object.(*corev1.Pod); ok && !c.Deleted && pod.Spec.NodeName == "" {
			return true
		}
	}
	return false
}
