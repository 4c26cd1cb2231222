package attachment

import (
	"strings"
	"testing"

	"github.com/purser-csi/purser/internal/verdict"
)

// The result for one node does not depend on the other nodes.
func TestOnNode(t *testing.T) {
	elsewhere := world(pod("a"), pod("b"), va("b", attached), listed("b"))
	for _, tc := range []struct {
		row     string
		s       Snapshot
		node    string
		reason  verdict.Reason
		message string // part of it
	}{
		{"4.8 another node has it", elsewhere, "a", verdict.MultiAttach, "Volume is already used by pod(s) p1"},
		{"4.8 the other node", elsewhere, "b", "", ""},
		{"4.4 attach error", world(pod("a"), va("a", vaFailed)), "a", verdict.AttachRetried, `AttachVolume.Attach failed for volume "pv" : no`},
		{"4.4 attached, not listed", world(pod("a"), va("a", attached)), "a", verdict.AttachRequested, ""},
		{"4.4 unused elsewhere", world(pod("a"), va("b", attached), listed("b")), "b", verdict.DetachRequested, ""},
		{"4.4 in use elsewhere", world(pod("a"), va("b", attached), inUse("b")), "b", verdict.DetachAwaitsUnmount, ""},
		{"4.2 an unmanaged node", world(pod("a"), unmanaged("a")), "a", "", ""},
	} {
		decided, message := OnNode(tc.s, tc.node, start)
		if decided.Reason != tc.reason || (message == "") != (tc.message == "") || !strings.Contains(message, tc.message) {
			t.Errorf("%s: %+v, message %q; want %s, %q", tc.row, decided, message, tc.reason, tc.message)
		}
	}
}
