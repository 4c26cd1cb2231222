package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

const driver = "csi.example"

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func csiNode(name string, keys ...string) *storagev1.CSINode {
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{
		Drivers: []storagev1.CSINodeDriver{{Name: "other", TopologyKeys: []string{"x"}}, {Name: driver, TopologyKeys: keys}},
	}}
}

// S-2: each node where the driver is registered with all its topology keys gives a segment.
func TestSegments(t *testing.T) {
	a, b := map[string]string{"zone": "a", "rack": "1"}, map[string]string{"zone": "b", "rack": "1"}
	for name, tc := range map[string]struct {
		nodes    []*corev1.Node
		csiNodes []*storagev1.CSINode
		want     []Segment
	}{
		"none":                     {nil, nil, nil},
		"each segment once":        {[]*corev1.Node{node("1", b), node("2", a), node("3", a)}, []*storagev1.CSINode{csiNode("1", "zone"), csiNode("2", "zone"), csiNode("3", "zone")}, []Segment{"zone=a", "zone=b"}},
		"keys in order":            {[]*corev1.Node{node("1", a)}, []*storagev1.CSINode{csiNode("1", "zone", "rack")}, []Segment{"rack=1,zone=a"}},
		"a label is absent":        {[]*corev1.Node{node("1", a), node("2", nil)}, []*storagev1.CSINode{csiNode("1", "zone"), csiNode("2", "zone")}, []Segment{"zone=a"}},
		"a node is absent":         {[]*corev1.Node{node("1", a)}, []*storagev1.CSINode{csiNode("1", "zone"), csiNode("2", "zone")}, []Segment{"zone=a"}},
		"the driver is absent":     {[]*corev1.Node{node("1", a)}, []*storagev1.CSINode{{ObjectMeta: metav1.ObjectMeta{Name: "1"}}}, nil},
		"no keys":                  {[]*corev1.Node{node("1", a), node("2", b)}, []*storagev1.CSINode{csiNode("1"), csiNode("2")}, []Segment{""}},
		"some nodes without keys":  {[]*corev1.Node{node("1", a), node("2", b)}, []*storagev1.CSINode{csiNode("1"), csiNode("2", "zone")}, []Segment{"zone=b"}},
		"nodes with other keys":    {[]*corev1.Node{node("1", a), node("2", b)}, []*storagev1.CSINode{csiNode("1", "rack"), csiNode("2", "zone")}, []Segment{"rack=1", "zone=b"}},
		"a label with no value":    {[]*corev1.Node{node("1", map[string]string{"zone": ""})}, []*storagev1.CSINode{csiNode("1", "zone")}, []Segment{"zone="}},
		"one node without a label": {[]*corev1.Node{node("1", nil)}, []*storagev1.CSINode{csiNode("1", "zone")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Segments(tc.nodes, tc.csiNodes, driver)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// S-4: Segments does not sort the topology keys of a cached CSINode in place.
func TestSegmentsDoesNotSortCachedKeys(t *testing.T) {
	csi := csiNode("1", "zone", "rack")
	Segments([]*corev1.Node{node("1", map[string]string{"zone": "a", "rack": "1"})}, []*storagev1.CSINode{csi}, driver)
	if diff := cmp.Diff(csiNode("1", "zone", "rack"), csi); diff != "" {
		t.Error(diff)
	}
}

// S-11, S-16: a segment has the labels that it was made from, and equal labels give equal segments.
func TestSegmentsOfEqualLabelsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z]([a-z./-]{0,5}[a-z])?`)
		labels := rapid.MapOf(word, rapid.StringMatching(`([A-Za-z0-9]([A-Za-z0-9_.-]{0,4}[a-z])?)?`)).Draw(t, "labels")
		segment := NewSegment(labels)
		back := segment.Labels()
		if len(labels) == 0 && back != nil || len(labels) > 0 && !cmp.Equal(labels, back) {
			t.Fatalf("%v became %v", labels, back)
		}
		for _, selector := range []*metav1.LabelSelector{{MatchLabels: labels}, {MatchLabels: back}} {
			if again, ok := ofSelector(selector); !ok || again != segment {
				t.Fatalf("%v became %q, want %q", selector, again, segment)
			}
		}
	})
	for _, empty := range []*metav1.LabelSelector{nil, {}, {MatchLabels: map[string]string{}}} {
		if segment, ok := ofSelector(empty); !ok || segment != "" {
			t.Errorf("S-11: %v is %q", empty, segment)
		}
	}
	if _, ok := ofSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "zone"}}}); ok {
		t.Error("expressions are no segment")
	}
}

// S-15: node affinity terms with one value for each key are segments.
func TestOfAffinity(t *testing.T) {
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	terms := func(terms ...[]corev1.NodeSelectorRequirement) *corev1.VolumeNodeAffinity {
		selector := &corev1.NodeSelector{}
		for _, t := range terms {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: t})
		}
		return &corev1.VolumeNodeAffinity{Required: selector}
	}
	type list = []corev1.NodeSelectorRequirement
	for name, tc := range map[string]struct {
		affinity *corev1.VolumeNodeAffinity
		want     []Segment
	}{
		"none":            {nil, nil},
		"nothing in it":   {&corev1.VolumeNodeAffinity{}, nil},
		"one":             {terms(list{in("zone", "a"), in("rack", "1")}), []Segment{"rack=1,zone=a"}},
		"two":             {terms(list{in("zone", "b")}, list{in("zone", "a")}), []Segment{"zone=b", "zone=a"}},
		"an empty term":   {terms(list{}), nil},
		"two values":      {terms(list{in("zone", "a", "b")}), nil},
		"not an equality": {terms(list{{Key: "zone", Operator: corev1.NodeSelectorOpExists}}), nil},
	} {
		if diff := cmp.Diff(tc.want, OfAffinity(tc.affinity)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
