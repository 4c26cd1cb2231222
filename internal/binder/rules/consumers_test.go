package binding

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// 8.21 and 8.23: the event names the pods that a claim waits for and why they have no node, or why
// no pod will end the wait.
func TestAwaitPod(t *testing.T) {
	long := strings.Repeat("ä", mostWords)
	for _, tc := range []struct {
		name string
		pods []Consumer
		want string
	}{
		{"8.23 none", nil, "waiting for first consumer to be created before binding"},
		{"8.23 one", []Consumer{{Pod: "p"}}, "waiting for pod p to be scheduled"},
		{
			"8.23 the scheduler has spoken",
			[]Consumer{{Pod: "p", Why: "0/3 nodes are available"}},
			"waiting for pod p to be scheduled (p: 0/3 nodes are available)",
		},
		{"8.23 of one of two", []Consumer{{Pod: "q"}, {Pod: "p", Why: "no"}}, "waiting for pods p,q to be scheduled (p: no)"},
		{
			"8.23 of a few at most",
			[]Consumer{{Pod: "a", Why: "1"}, {Pod: "b", Why: "2"}, {Pod: "c", Why: "3"}, {Pod: "d", Why: "4"}},
			"waiting for pods a,b,c,d to be scheduled (a: 1; b: 2; c: 3)",
		},
		{
			"8.23 not all of it",
			[]Consumer{{Pod: "p", Why: long}},
			"waiting for pod p to be scheduled (p: " + strings.Repeat("ä", mostWords/2) + "…)",
		},
		{
			"8.21 past the scheduler",
			[]Consumer{{Pod: "q", Node: "n2"}, {Pod: "p", Node: "n1"}},
			"waiting for first consumer to be created before binding: pod p is on node n1, and no scheduler " +
				"has picked that node for the claim. " +
				"Create the pod without spec.nodeName, for a scheduler that binds volumes",
		},
		{"8.21 another one is not", []Consumer{{Pod: "q"}, {Pod: "p", Node: "n1"}}, "waiting for pod q to be scheduled"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := awaitPod(tc.pods).Because().Message; got != tc.want || !utf8.ValidString(got) {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
