package names

import (
	"strings"
	"testing"
)

// LB-1, LB-2: the labels that tell the publishers of capacities apart.
func TestCapacityManager(t *testing.T) {
	long := strings.Repeat("n", 60)
	for node, want := range map[string]string{
		"":                      "external-provisioner",
		"node-1":                "external-provisioner-node-1",
		strings.Repeat("n", 42): "external-provisioner-" + strings.Repeat("n", 42),
	} {
		if got := CapacityManager(node); got != want {
			t.Errorf("%s: got %s, want %s", node, got, want)
		}
	}
	for _, node := range []string{strings.Repeat("n", 43), strings.Repeat("n", 51), long, long + "m"} {
		if got := CapacityManager(node); len(got) > 63 || !strings.HasPrefix(got, "e") {
			t.Errorf("%s: got %s with %d characters", node, got, len(got))
		}
		if got := CapacityManager(node); !IsNodeCapacityManager(got) {
			t.Errorf("%s is not taken for the label of a node", got)
		}
	}
	for _, other := range []string{"", "external-provisioner", "external", "other-tool", "-a-b"} {
		if IsNodeCapacityManager(other) {
			t.Errorf("%q is taken for the label of a node", other)
		}
	}
	if CapacityManager(long) == CapacityManager(long+"m") {
		t.Error("two nodes have one label")
	}
}
