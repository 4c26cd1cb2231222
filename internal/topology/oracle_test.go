package topology

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// place is one place of the oracle: its segments as sorted text.
func place(segments map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		pairs = append(pairs, key+"="+segments[key])
	}
	return strings.Join(pairs, ",")
}

// includes reports whether every segment of the smaller place is in the larger one.
func includes(larger, smaller map[string]string) bool {
	for key, value := range smaller {
		if have, ok := larger[key]; !ok || have != value {
			return false
		}
	}
	return true
}

// naiveAllowed multiplies the selectors out, one value of each expression at a time.
func naiveAllowed(claim Claim) (places []map[string]string) {
	for _, selector := range claim.Allowed {
		if len(selector.MatchLabelExpressions) == 0 {
			continue
		}
		terms := []map[string]string{{}}
		for _, e := range selector.MatchLabelExpressions {
			var next []map[string]string
			for _, t := range terms {
				for _, v := range e.Values {
					one := maps.Clone(t)
					one[e.Key] = v
					next = append(next, one)
				}
			}
			terms = next
		}
		places = append(places, terms...)
	}
	return places
}

// naiveNodes returns the place of each node for each set of keys that counts.
func naiveNodes(claim Claim) (places []map[string]string) {
	sets := [][]string{slices.Collect(maps.Keys(claim.Selected))}
	if claim.Selected == nil {
		sets = nil
		for _, n := range claim.Nodes {
			sets = append(sets, n.Keys)
		}
	} else {
		places = append(places, claim.Selected)
	}
	for _, keys := range sets {
		for _, n := range claim.Nodes {
			at := map[string]string{}
			for _, key := range keys {
				if value, ok := n.Labels[key]; ok && slices.Contains(n.Keys, key) {
					at[key] = value
				}
			}
			if len(keys) > 0 && len(at) == len(keys) {
				places = append(places, at)
			}
		}
	}
	return places
}

// naiveRequisite reads the table T-10 to T-18 row by row. nothing stands for a nil requirement.
func naiveRequisite(claim Claim, rules Rules) (places map[string]bool, nothing, refused bool) {
	allowed := naiveAllowed(claim)
	places = map[string]bool{}
	add := func(from []map[string]string) {
		for _, p := range from {
			places[place(p)] = true
		}
	}
	hasAllowed := len(claim.Allowed) > 0
	if hasAllowed && len(allowed) == 0 { // T-18
		return nil, true, false
	}
	fits := slices.ContainsFunc(allowed, func(a map[string]string) bool { return includes(claim.Selected, a) })
	switch {
	case claim.Selected != nil && hasAllowed && !fits: // T-12, T-14
		return nil, false, true
	case claim.Selected != nil && rules.Strict: // T-10, T-11
		add([]map[string]string{claim.Selected})
	case hasAllowed && !rules.Assertive: // T-14, T-15
		add(allowed)
	case hasAllowed: // U-32
		for _, p := range naiveNodes(claim) {
			if slices.ContainsFunc(allowed, func(a map[string]string) bool { return includes(p, a) }) {
				add([]map[string]string{p})
			}
		}
	case claim.Selected == nil && !rules.Immediate: // T-17
		return nil, true, false
	default: // T-13, T-16
		add(naiveNodes(claim))
	}
	return places, false, len(places) == 0
}

// TestRequirementTableOracle holds every row of the table against the naive reading of it: the set of
// requisite places, that the preferred ones are a rotation of them, which one is the first, and the
// bound on their number.
func TestRequirementTableOracle(t *testing.T) {
	value, key := rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"host", "rack", "zone"})
	rapid.Check(t, func(t *rapid.T) {
		nodes := make([]Node, rapid.IntRange(0, 5).Draw(t, "nodes"))
		for i := range nodes {
			nodes[i].Labels = rapid.MapOf(key, value).Draw(t, "labels")
			nodes[i].Keys = rapid.SliceOfDistinct(key, rapid.ID[string]).Draw(t, "keys")
		}
		claim, rules := drawClaim(t, nodes)
		most := rules.MaxTerms
		rules.MaxTerms = 0
		whole, err := Requirement(claim, rules)
		places, nothing, refused := naiveRequisite(claim, rules)
		if (err != nil) != refused || err == nil && (whole == nil) != nothing {
			t.Fatalf("%v %v; the table: %v, nothing %v, refused %v", whole, err, places, nothing, refused)
		}
		if whole == nil {
			return
		}
		requisite, preferred := strings.Split(texts(whole.GetRequisite()), " "), strings.Split(texts(whole.GetPreferred()), " ")
		if !maps.Equal(asSet(requisite), places) || len(requisite) != len(places) {
			t.Fatalf("requisite %v, the table %v", requisite, places)
		}
		first := slices.Index(requisite, preferred[0])
		for i := range requisite {
			if preferred[i] != requisite[(first+i)%len(requisite)] {
				t.Fatalf("preferred %v is no rotation of %v", preferred, requisite)
			}
		}
		if claim.Selected == nil && first != Shift(claim.Name, len(requisite)) {
			t.Fatalf("T-21: %d is first", first)
		}
		if claim.Selected != nil && !includes(claim.Selected, whole.GetPreferred()[0].GetSegments()) {
			t.Fatalf("T-13: %v is first, away from %v", preferred[0], claim.Selected)
		}
		rules.MaxTerms = most
		bounded, _ := Requirement(claim, rules)
		if most > 0 && (len(bounded.GetRequisite()) > most || texts(bounded.GetPreferred()) != strings.Join(preferred[:min(most, len(preferred))], " ")) {
			t.Fatalf("T-30: %v of %v", bounded, preferred)
		}
	})
}

func asSet(texts []string) map[string]bool {
	set := map[string]bool{}
	for _, text := range texts {
		set[text] = true
	}
	return set
}
