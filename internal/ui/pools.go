package ui

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	keys "github.com/purser-csi/purser/internal/objects"
	"github.com/purser-csi/purser/internal/size"
	"github.com/purser-csi/purser/internal/topology"
)

// poolView is the capacity of a class in a segment of the topology.
type poolView struct {
	Class   string
	Segment string
	Used    int64 // bytes of volumes of the class that can be used there
	Free    int64
	Volumes int
	Most    int64 // the largest volume that fits; 0 if that is not known
}

// Share is the used part in percent.
func (p poolView) Share() int {
	if p.Used+p.Free <= 0 {
		return 0
	}
	return int(100 * float64(p.Used) / float64(p.Used+p.Free))
}

// Bar is the width of the used part in a drawing of 100.
func (p poolView) Bar() int { return min(100, max(0, p.Share())) }

// alike are the volumes of a class with the same node affinity.
type alike struct {
	affinity *corev1.VolumeNodeAffinity
	bytes    int64
	count    int
}

// poolsOf returns the published capacities with the least that is free, the fullest first.
func poolsOf(c *explain.Cluster) (all []poolView, more int) {
	volumes := volumesAlike(c)
	capacities := slices.SortedStableFunc(slices.Values(c.Capacities), func(a, b *storagev1.CSIStorageCapacity) int {
		return cmp.Compare(free(a), free(b))
	})
	for _, published := range firstOf(mostPools, capacities) {
		p := poolView{
			Class: published.StorageClassName, Segment: segmentText(published.NodeTopology), Free: free(published),
		}
		if published.MaximumVolumeSize != nil {
			p.Most = size.Clamp(*published.MaximumVolumeSize)
		}
		for _, of := range volumes[p.Class] {
			if published.NodeTopology == nil || topology.Includes(of.affinity, "", published.NodeTopology.MatchLabels) {
				p.Used, p.Volumes = size.Sum(p.Used, of.bytes), p.Volumes+of.count
			}
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b poolView) int {
		return cmp.Or(cmp.Compare(b.Share(), a.Share()), strings.Compare(a.Class+a.Segment, b.Class+b.Segment))
	})
	return all, max(0, len(capacities)-mostPools)
}

// volumesAlike returns the volumes by class, those with the same node affinity as one.
func volumesAlike(c *explain.Cluster) map[string][]*alike {
	all, known := map[string][]*alike{}, map[[2]string]*alike{}
	for _, pv := range c.Volumes {
		class := keys.VolumeClass(pv)
		key := [2]string{class, affinityText(pv.Spec.NodeAffinity)}
		of := known[key]
		if of == nil {
			of = &alike{affinity: pv.Spec.NodeAffinity}
			known[key] = of
			all[class] = append(all[class], of)
		}
		of.bytes = size.Sum(of.bytes, size.Clamp(pv.Spec.Capacity[corev1.ResourceStorage]))
		of.count++
	}
	return all
}

// affinityText is the same for the same affinity.
func affinityText(affinity *corev1.VolumeNodeAffinity) string {
	if affinity == nil || affinity.Required == nil {
		return ""
	}
	var text strings.Builder
	for _, term := range affinity.Required.NodeSelectorTerms {
		text.WriteString("|")
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			text.WriteString(r.Key + string(r.Operator) + strings.Join(r.Values, ",") + ";")
		}
	}
	return text.String()
}

func free(c *storagev1.CSIStorageCapacity) int64 {
	if c.Capacity == nil {
		return 0
	}
	return size.Clamp(*c.Capacity)
}

func segmentText(selector *metav1.LabelSelector) string {
	if selector == nil || len(selector.MatchLabels) == 0 {
		return "everywhere"
	}
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		parts = append(parts, key+"="+selector.MatchLabels[key])
	}
	return strings.Join(parts, ", ")
}
