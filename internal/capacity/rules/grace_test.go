package capacity

import (
	"slices"
	"testing"
	"time"
)

// S-13: a rollout of the node plugin does not take the capacities of a node that exists.
func TestLinger(t *testing.T) {
	now := time.Unix(10_000, 0)
	a, b := map[string]string{"zone": "a", "x": "y"}, map[string]string{"zone": "b"}
	for name, tc := range map[string]struct {
		missing          Missing
		published, found []Segment
		nodes            []map[string]string
		want             []Segment
		next             time.Duration
	}{
		"the driver is registered":               {nil, []Segment{"zone=a"}, []Segment{"zone=a"}, nil, nil, 0},
		"it was unregistered":                    {nil, []Segment{"zone=a"}, nil, []map[string]string{a}, []Segment{"zone=a"}, Grace},
		"the node is gone":                       {nil, []Segment{"zone=a"}, nil, []map[string]string{b}, nil, 0},
		"the node has another driver's label":    {nil, []Segment{"zone=a,rack=1"}, nil, []map[string]string{a}, nil, 0},
		"a while ago":                            {Missing{"zone=a": now.Add(-time.Minute)}, []Segment{"zone=a"}, nil, []map[string]string{a}, []Segment{"zone=a"}, Grace - time.Minute},
		"too long ago":                           {Missing{"zone=a": now.Add(-Grace)}, []Segment{"zone=a"}, nil, []map[string]string{a}, nil, 0},
		"the first of two ends":                  {Missing{"zone=a": now.Add(-time.Minute)}, []Segment{"zone=a", "zone=b"}, nil, []map[string]string{a, b}, []Segment{"zone=a", "zone=b"}, Grace - time.Minute},
		"the whole cluster":                      {nil, []Segment{""}, nil, []map[string]string{a}, []Segment{""}, Grace},
		"the whole cluster hides that b is full": {nil, []Segment{""}, []Segment{"zone=b"}, []map[string]string{a}, nil, 0},
	} {
		stay, next := tc.missing.Linger(tc.published, tc.found, tc.nodes, now)
		var after time.Duration
		if !next.IsZero() {
			after = next.Sub(now)
		}
		if got := stay.At(now); !slices.Equal(got, tc.want) || after != tc.next {
			t.Errorf("%s: %v stay until %s, want %v until %s", name, got, after, tc.want, tc.next)
		}
	}
}
