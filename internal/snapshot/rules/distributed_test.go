package snapshotting

import (
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/purser-csi/purser/internal/names"
	"github.com/purser-csi/purser/test/verdicttest"
)

// local binds the volume to nodes with zone=a.
func local(s *Snapshot) {
	s.Distributed = true
	s.Volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
	}}}}
	for name, zone := range map[string]string{"n3": "a", "n2": "a", "n1": "b"} {
		s.Nodes = append(s.Nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}})
	}
}

// SN-L1: the content of a node-local volume names the first node of the volume.
func TestContentNamesTheNode(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    Snapshot
		want string
	}{
		{"distributed", world(local), "n2"},
		{"not distributed", world(local, func(s *Snapshot) { s.Distributed = false }), ""},
		{"no affinity", world(local, func(s *Snapshot) { s.Volume.Spec.NodeAffinity = nil }), ""},
		{"no such node", world(local, func(s *Snapshot) { s.Nodes = nil }), ""},
	} {
		content, _, bad := viewOf(tc.s, now).newContent(classOf(tc.s.Class))
		if bad || content.GetLabels()[names.LabelSnapshotNode] != tc.want {
			t.Errorf("%s: labels %v, want node %q", tc.name, content.GetLabels(), tc.want)
		}
	}
}

// SN-L2: the sidecar on a node serves the contents of that node.
func TestSidecarServesItsNode(t *testing.T) {
	for node, want := range map[string]string{"": "do CreateSnapshot", "n": "do CreateSnapshot", "m": "nothing ContentIdle"} {
		c := content(func(c *snapshotv1.VolumeSnapshotContent) { c.Labels = map[string]string{names.LabelSnapshotNode: "n"} })
		s := ContentSnapshot{ContentSettings: ContentSettings{Driver: "d", Node: node}, Content: c, Class: class("d")}
		if got := verdicttest.Show(DecideContent(s, now)); got != want {
			t.Errorf("node %q: %s, want %s", node, got, want)
		}
	}
}
