package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

func zones(values ...string) []corev1.TopologySelectorTerm {
	return []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: "zone", Values: values}}}}
}

func inZone(zone, rack string) Node {
	return Node{Labels: map[string]string{"zone": zone, "rack": rack}, Keys: []string{"zone"}}
}

// texts returns the terms as text, so that their order shows.
func texts(places []*csi.Topology) string {
	out := make([]string, 0, len(places))
	for _, p := range places {
		out = append(out, strings.ReplaceAll(newTerm(p.GetSegments()).String(), `"`, ""))
	}
	return strings.Join(out, " ")
}

func TestRequirement(t *testing.T) {
	abc := []Node{inZone("c", "1"), inZone("a", "2"), inZone("b", "3"), inZone("a", "4")}
	racks := append(slices.Clone(abc), Node{Labels: map[string]string{"zone": "a", "rack": "2"}, Keys: []string{"rack", "zone"}})
	atB := map[string]string{"zone": "b"}
	for _, tc := range []struct {
		row                  string
		claim                Claim
		rules                Rules
		requisite, preferred string
		err                  string
	}{
		{"T-10 strict", Claim{Selected: atB, Nodes: abc}, Rules{Strict: true}, "zone=b", "zone=b", ""},
		{"T-11 strict, allowed", Claim{Selected: atB, Allowed: zones("a", "b")}, Rules{Strict: true}, "zone=b", "zone=b", ""},
		{"T-12 strict, excluded", Claim{Selected: atB, Allowed: zones("a")}, Rules{Strict: true}, "", "", `zone="b"`},
		{"T-13 selected node's zone first", Claim{Selected: atB, Nodes: abc}, Rules{}, "zone=a zone=b zone=c", "zone=b zone=c zone=a", ""},
		{"T-13 nodes without the selected node", Claim{Selected: atB, Nodes: abc[:1]}, Rules{}, "zone=b zone=c", "zone=b zone=c", ""},
		{"T-14 allowed, rotated", Claim{Selected: atB, Allowed: zones("c", "b", "b"), Nodes: abc}, Rules{}, "zone=b zone=c", "zone=b zone=c", ""},
		{"T-14 excluded", Claim{Selected: atB, Allowed: zones("c")}, Rules{}, "", "", `zone="b"`},
		{"T-15 allowed, by hash", Claim{Name: "data-web-1", Allowed: zones("z", "y"), Nodes: abc}, Rules{Immediate: true}, "zone=y zone=z", "", ""},
		{"T-16 every zone", Claim{Name: "x", Nodes: abc}, Rules{Immediate: true}, "zone=a zone=b zone=c", "", ""},
		{"T-16, T-24 each set of keys", Claim{Name: "x", Nodes: racks}, Rules{Immediate: true}, "zone=a zone=b zone=c rack=2,zone=a", "", ""},
		{"T-17 the driver chooses", Claim{Nodes: abc}, Rules{}, "", "", ""},
		{"T-18 empty entries", Claim{Selected: atB, Allowed: make([]corev1.TopologySelectorTerm, 2), Nodes: abc}, Rules{}, "", "", ""},
		{"T-24 no keys", Claim{Nodes: []Node{{}}}, Rules{Immediate: true}, "", "", ErrNoKeys.Error()},
		{"T-24 no labels", Claim{Nodes: []Node{{Keys: []string{"zone"}}}}, Rules{Immediate: true}, "", "", ErrNoNode.Error()},
		{"T-30 bound", Claim{Selected: map[string]string{"zone": "c"}, Nodes: abc}, Rules{MaxTerms: 2}, "zone=a zone=c", "zone=c zone=a", ""},
		{"U-32 allowed filters", Claim{Selected: map[string]string{"rack": "2", "zone": "a"}, Allowed: zones("a"), Nodes: racks}, Rules{Assertive: true}, "rack=2,zone=a", "rack=2,zone=a", ""},
		{"U-32 no node", Claim{Allowed: zones("x"), Nodes: abc}, Rules{Assertive: true}, "", "", "any node"},
	} {
		t.Run(tc.row, func(t *testing.T) {
			got, err := Requirement(tc.claim, tc.rules)
			if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Fatalf("error %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.requisite, texts(got.GetRequisite())); diff != "" {
				t.Error("requisite", diff)
			}
			if diff := cmp.Diff(tc.preferred, texts(got.GetPreferred())); tc.preferred != "" && diff != "" {
				t.Error("preferred", diff)
			}
		})
	}
}

// TestFlatten is T-20.
func TestFlatten(t *testing.T) {
	selector := func(pairs ...string) (s corev1.TopologySelectorTerm) {
		for _, pair := range pairs {
			key, values, _ := strings.Cut(pair, "=")
			s.MatchLabelExpressions = append(s.MatchLabelExpressions,
				corev1.TopologySelectorLabelRequirement{Key: key, Values: strings.FieldsFunc(values, func(r rune) bool { return r == ',' })})
		}
		return s
	}
	for want, allowed := range map[string][]corev1.TopologySelectorTerm{
		"rack=1,zone=a rack=2,zone=a rack=1,zone=b rack=2,zone=b": {selector("zone=a,b", "rack=1,2")},
		"zone=b zone=a": {selector("zone=b"), selector(), selector("zone=a")},
		"rack=1":        {selector("zone=a", "host=", "rack=1")},
	} {
		if got := texts(messages(flatten(allowed))); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestClaimsOfAStatefulSetAreSpread: T-21. Claims of one StatefulSet of six spread two to each of three zones.
func TestClaimsOfAStatefulSetAreSpread(t *testing.T) {
	count := map[int]int{}
	for ordinal := range 6 {
		count[Shift(fmt.Sprintf("data-web-%d", ordinal), 3)]++
	}
	if diff := cmp.Diff(map[int]int{0: 2, 1: 2, 2: 2}, count); diff != "" {
		t.Error(diff)
	}
	for name, want := range map[string]string{
		"data-web-3": "web 3", "web-3": "web 3", "web": "web 0", "data-web": "data-web 0", "a-b-4294967296": "a-b-4294967296 0", "": " 0",
	} {
		if set, ordinal := splitOrdinal(name); fmt.Sprint(set, " ", ordinal) != want {
			t.Errorf("%q: %q %d, want %s", name, set, ordinal, want)
		}
	}
}

// TestRequirementOracle compares with a naive oracle: the set of requested places, and the order of
// the preferred ones.
func TestRequirementOracle(t *testing.T) {
	value := rapid.SampledFrom([]string{"a", "b", "c"})
	key := rapid.SampledFrom([]string{"host", "rack", "zone"})
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]Node, rapid.IntRange(0, 6).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i].Labels = rapid.MapOf(key, value).Draw(t, "labels")
			nodes[i].Keys = rapid.SliceOfDistinct(key, rapid.ID[string]).Draw(t, "keys")
		}
		claim := Claim{Name: rapid.StringMatching(`[a-z]+(-[a-z0-9]{1,2}){0,2}`).Draw(t, "name"), Nodes: nodes}
		got, err := Requirement(claim, Rules{Immediate: true})
		want := naivePlaces(nodes)
		switch {
		case errors.Is(err, ErrNoKeys) || errors.Is(err, ErrNoNode):
			if len(want) > 0 {
				t.Fatalf("%v, want %v", err, want)
			}
			return
		case err != nil:
			t.Fatal(err)
		}
		places := strings.Split(texts(got.GetRequisite()), " ")
		if !slices.Equal(slices.Sorted(slices.Values(places)), slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%v, want %v", places, want)
		}
		preferred, first := strings.Split(texts(got.GetPreferred()), " "), Shift(claim.Name, len(places))
		for i := range places {
			if preferred[i] != places[(first+i)%len(places)] {
				t.Fatalf("preferred %v is no rotation of %v by %d", preferred, places, first)
			}
		}
	})
}

// naivePlaces returns, for every node and every key set of any node, the place of the node if it
// registers and has these keys.
func naivePlaces(nodes []Node) map[string]bool {
	out := map[string]bool{}
	for _, from := range nodes {
		for _, n := range nodes {
			var pairs []string
			for _, k := range slices.Sorted(slices.Values(from.Keys)) {
				if v, ok := n.Labels[k]; ok && slices.Contains(n.Keys, k) {
					pairs = append(pairs, k+"="+v)
				}
			}
			if len(pairs) == len(from.Keys) && len(pairs) > 0 {
				out[strings.Join(pairs, ",")] = true
			}
		}
	}
	return out
}
