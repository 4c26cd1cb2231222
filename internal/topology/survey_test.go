package topology

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"pgregory.net/rapid"
)

// T-24, T-30: nodes in one place count once, those without the driver not at all, and one without a
// Node or a label tells its keys.
func TestSurvey(t *testing.T) {
	labels := map[string]map[string]string{
		"n1": {"zone": "a", "else": "1"}, "n2": {"zone": "a", "else": "2"}, "n3": {"zone": "b"}, "n4": {"rack": "r"},
	}
	on := func(name string, keys ...string) storagev1.CSINode {
		c := *registered(keys...)
		c.Name = name
		return c
	}
	without := storagev1.CSINode{}
	without.Name = "n4"
	got := Survey([]storagev1.CSINode{
		on("n1", "zone"), on("n2", "zone"), on("n3", "zone"), on("n4", "zone", "rack"), on("gone", "zone"), without, on("n5"),
	}, func(node string) map[string]string { return labels[node] }, driver)
	want := []Node{
		{Keys: []string{"zone"}, Labels: map[string]string{"zone": "a"}},
		{Keys: []string{"zone"}, Labels: map[string]string{"zone": "b"}},
		{Keys: []string{"rack", "zone"}, Labels: map[string]string{"rack": "r"}},
		{Keys: []string{"zone"}, Labels: map[string]string{}},
		{Labels: map[string]string{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !HasKeys(got) || HasKeys(got[4:]) || HasKeys(nil) {
		t.Error("HasKeys")
	}
}

func TestSameKeys(t *testing.T) {
	none := &storagev1.CSINode{}
	for i, tc := range []struct {
		was, is *storagev1.CSINode
		want    bool
	}{
		{registered("zone"), registered("zone"), true},
		{registered("zone"), registered("rack"), false},
		{none, registered(), false},
		{none, nil, true},
		{registered(), none, false},
	} {
		if SameKeys(tc.was, tc.is, driver) != tc.want {
			t.Errorf("case %d: want %v", i, tc.want)
		}
	}
}

// TestSurveyOracle: a survey leads to the same requirement as all nodes one by one do, for every
// claim and all rules.
func TestSurveyOracle(t *testing.T) {
	value, key := rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"host", "rack", "zone"})
	rapid.Check(t, func(t *rapid.T) {
		var all []Node
		var csiNodes []storagev1.CSINode
		labels := map[string]map[string]string{}
		for i := range rapid.IntRange(0, 6).Draw(t, "nodes") {
			n := Node{Labels: rapid.MapOf(key, value).Draw(t, "labels"), Keys: rapid.SliceOfDistinct(key, rapid.ID[string]).Draw(t, "keys")}
			all = append(all, n)
			c := *registered(n.Keys...)
			c.Name = fmt.Sprint(i)
			csiNodes, labels[c.Name] = append(csiNodes, c), n.Labels
		}
		claim, rules := drawClaim(t, all)
		want, wantErr := Requirement(claim, rules)
		claim.Nodes = Survey(csiNodes, func(node string) map[string]string { return labels[node] }, driver)
		got, err := Requirement(claim, rules)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || texts(got.GetRequisite()) != texts(want.GetRequisite()) || texts(got.GetPreferred()) != texts(want.GetPreferred()) {
			t.Fatalf("%v %v, want %v %v", got, err, want, wantErr)
		}
	})
}

// drawClaim draws a claim with and without a selected node and allowedTopologies, and rules.
func drawClaim(t *rapid.T, nodes []Node) (Claim, Rules) {
	claim := Claim{Name: rapid.StringMatching(`[a-z]+(-[a-z0-9]{1,2}){0,2}`).Draw(t, "name"), Nodes: nodes}
	if len(nodes) > 0 && rapid.Bool().Draw(t, "selected") {
		if place, ok := nodes[0].term(nodes[0].Keys); ok && len(place) > 0 {
			claim.Selected = place.message().GetSegments()
		}
	}
	selector := rapid.Custom(func(t *rapid.T) corev1.TopologySelectorTerm {
		var s corev1.TopologySelectorTerm
		for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"host", "rack", "zone"}), 0, 2, rapid.ID[string]).Draw(t, "expressions") {
			values := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 1, 2, rapid.ID[string]).Draw(t, "values")
			s.MatchLabelExpressions = append(s.MatchLabelExpressions, corev1.TopologySelectorLabelRequirement{Key: key, Values: values})
		}
		return s
	})
	claim.Allowed = rapid.SliceOfN(selector, 0, 2).Draw(t, "allowed")
	return claim, Rules{
		Strict: rapid.Bool().Draw(t, "strict"), Immediate: rapid.Bool().Draw(t, "immediate"), Assertive: rapid.Bool().Draw(t, "assertive"),
		MaxTerms: rapid.IntRange(0, 3).Draw(t, "most"),
	}
}
