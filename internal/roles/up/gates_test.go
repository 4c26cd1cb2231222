package up

import (
	"testing"

	"github.com/purser-csi/purser/internal/roles/provisioner"
	"github.com/purser-csi/purser/internal/roles/resizer"
)

// Each role of `up` gets the gates that it has.
func TestGatesOfRoles(t *testing.T) {
	var gates roleGates
	if err := gates.Set("NoSuchGate=true"); err == nil {
		t.Error("a gate that no role has is accepted")
	}
	for _, value := range []string{"CSIVolumeGroupSnapshot=true,AnnotateFsResize=false", "Topology=false"} {
		if err := gates.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	r, p := resizer.New(), provisioner.New()
	if err := gates.applyTo(r.Gates); err != nil || r.Gates.Enabled("AnnotateFsResize") {
		t.Errorf("the gate of csi-resizer has no effect: %v", err)
	}
	if err := gates.applyTo(p.Gates); err != nil || p.Gates.Enabled(provisioner.GateTopology) {
		t.Errorf("the gate of csi-provisioner has no effect: %v", err)
	}
}
