package names

import (
	"fmt"
	"hash/fnv"
	"strings"
)

// Labels of CSIStorageCapacity objects (LB-1). They distinguish the publishers of capacities; the
// scheduler does not read them.
const (
	LabelCapacityDriver    = "csi.storage.k8s.io/drivername"
	LabelCapacityManagedBy = "csi.storage.k8s.io/managed-by"
	managedByProvisioner   = "external-provisioner"
)

// CapacityManager returns the managed-by label of the objects that a provisioner publishes: for the
// whole cluster without a node, else for that node. Upstream's provisioner has the same labels, so
// each adopts the objects of the other (S-20).
func CapacityManager(node string) string {
	if node == "" {
		return managedByProvisioner
	}
	return shortened(managedByProvisioner, node, maxLabelValue)
}

// maxLabelValue is the longest value of a label.
const maxLabelValue = 63

// shortened joins base and suffix with a dash. If the text is longer than most, a hash replaces
// what is cut (LB-2).
func shortened(base, suffix string, most int) string {
	whole := base + "-" + suffix
	if len(whole) <= most {
		return whole
	}
	const hashed = 8 // characters
	if room := most - hashed - 2 - len(suffix); room > 0 {
		return fmt.Sprintf("%s-%s-%s", base[:min(room, len(base))], hash32(base), suffix)
	}
	kept := base[:min(len(base), most-hashed-1)]
	return kept + "-" + hash32(whole)
}

func hash32(text string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return fmt.Sprintf("%08x", h.Sum32())
}

// IsNodeCapacityManager reports whether a managed-by label is that of a provisioner for one node.
func IsNodeCapacityManager(label string) bool {
	if strings.HasPrefix(label, managedByProvisioner+"-") {
		return true
	}
	base, _, shortened := strings.Cut(label, "-"+hash32(managedByProvisioner)+"-")
	return shortened && base != "" && strings.HasPrefix(managedByProvisioner, base)
}
