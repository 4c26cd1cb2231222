package topology

import (
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const driver = "csi.example"

func node(labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func registered(keys ...string) *storagev1.CSINode {
	return &storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "other"}, {Name: driver, TopologyKeys: keys}}}}
}

func TestOfNode(t *testing.T) {
	type segments = map[string]string
	for _, tc := range []struct {
		row     string
		node    *corev1.Node
		csiNode *storagev1.CSINode
		want    segments
		err     string
	}{
		{"T-22 the registered keys and no others", node(segments{"zone": "a", "rack": "1", "else": "x"}), registered("zone", "rack"), segments{"zone": "a", "rack": "1"}, ""},
		{"T-22 a driver without keys has one place", nil, registered(), nil, ""},
		{"T-22 no CSINode", node(nil), nil, nil, "CSINode does not exist"},
		{"T-22 the driver is not on the node", node(nil), &storagev1.CSINode{}, nil, `"csi.example" is not registered`},
		{"T-23 no Node", nil, registered("zone"), nil, "Node does not exist"},
		{"T-23 a label is missing", node(segments{"zone": "a"}), registered("zone", "rack"), nil, `"rack"`},
		{"T-23 an empty label is a place", node(segments{"zone": ""}), registered("zone"), segments{"zone": ""}, ""},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got, err := OfNode(tc.node, tc.csiNode, driver)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// FuzzPlaces: no node, driver or answer makes anything panic, a place is what the driver
// registered, and there is never an affinity that the API server refuses for want of terms (P-12,
// H-3).
func FuzzPlaces(f *testing.F) {
	f.Add("zone", "a", "zone", uint8(3))
	f.Add("", "", "rack", uint8(0))
	f.Fuzz(func(t *testing.T, label, value, key string, shape uint8) {
		var n *corev1.Node
		if shape&1 != 0 {
			n = node(map[string]string{label: value})
		}
		var c *storagev1.CSINode
		if shape&2 != 0 {
			c = registered(key)
		}
		segments, err := OfNode(n, c, driver)
		if err == nil && (len(segments) != 1 || segments[key] != value || key != label) {
			t.Errorf("%v of label %q=%q and key %q", segments, label, value, key)
		}
		places := []*csi.Topology{nil, {}, {Segments: segments}, {Segments: map[string]string{}}}
		affinity := Affinity(places[:shape%5])
		if affinity == nil {
			return
		}
		for _, term := range affinity.Required.NodeSelectorTerms {
			if len(term.MatchExpressions) == 0 {
				t.Error("a term without expressions")
			}
		}
		if len(affinity.Required.NodeSelectorTerms) == 0 {
			t.Error("an affinity without terms")
		}
	})
}
