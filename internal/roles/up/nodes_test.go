package up

import (
	"fmt"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
)

func TestNodes(t *testing.T) {
	for _, tc := range []struct {
		nodes int
		zones string
		want  string
	}{
		{0, "", "[{purser }]"},
		{1, "", "[{purser }]"},
		{2, "", "[{purser-1 } {purser-2 }]"},
		{0, "a,b", "[{purser-1 a} {purser-2 b}]"},
		{3, "a=1Gi,b", "[{purser-1 a} {purser-2 b} {purser-3 a}]"},
	} {
		u := &Up{NodeName: "purser", Nodes: tc.nodes}
		if tc.zones != "" {
			if err := u.Zones.Set(tc.zones); err != nil {
				t.Fatal(err)
			}
		}
		if got := fmt.Sprint(u.nodes()); got != tc.want || u.validateNodes() != nil {
			t.Errorf("%+v: %s, %v", tc, got, u.validateNodes())
		}
	}
}

func TestMistakesAboutNodes(t *testing.T) {
	for _, tc := range []struct {
		nodes               int
		zones, address, err string
	}{
		{-1, "", "", "from 0 to"},
		{1, "a,b", "", "each of the 2 zones"},
		{2, "a=1Gi,b", "unix:///x", "built-in driver"},
	} {
		u := &Up{NodeName: "purser", Nodes: tc.nodes, CSIAddress: tc.address}
		if tc.zones != "" {
			if err := u.Zones.Set(tc.zones); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.validateNodes(); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%+v: %v, want %q", tc, err, tc.err)
		}
	}
}

// The capacities of zones are published for the scheduler; those of the user's own driver are not.
func TestCapacityOfZonesIsPublished(t *testing.T) {
	for _, tc := range []struct {
		zones, address string
		want           bool
	}{{"", "", false}, {"a,b", "", true}, {"a=1Gi,b", "", true}, {"a,b", "unix:///x", false}} {
		u := &Up{CSIAddress: tc.address}
		if tc.zones != "" {
			if err := u.Zones.Set(tc.zones); err != nil {
				t.Fatal(err)
			}
		}
		if got := u.publishesCapacity(); got != tc.want {
			t.Errorf("%+v: %t", tc, got)
		}
	}
}

func TestGroupPolicy(t *testing.T) {
	for uid, want := range map[int]storagev1.FSGroupPolicy{0: storagev1.FileFSGroupPolicy, 1000: storagev1.NoneFSGroupPolicy} {
		if got := groupPolicy(uid); got != want {
			t.Errorf("uid %d: %s", uid, got)
		}
	}
}
