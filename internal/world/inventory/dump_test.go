package inventory

import (
	"encoding/json"
	"strings"
	"testing"
)

// A name is replaced by the same word everywhere: in metadata, references, keys and messages.
// Values that explain needs stay.
func TestHideNames(t *testing.T) {
	items := []map[string]any{
		{
			"kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "payroll-2026", "namespace": "acme-hr"},
			"spec": map[string]any{"volumeName": "pvc-1", "storageClassName": "fast"},
		},
		{"kind": "PersistentVolume", "metadata": map[string]any{"name": "pvc-1"}, "spec": map[string]any{
			"claimRef": map[string]any{"namespace": "acme-hr", "name": "payroll-2026"},
			"csi":      map[string]any{"driver": "disk.example.com"},
		}},
		{"kind": "Node", "metadata": map[string]any{"name": "host7.acme.internal"}},
		{
			"kind": "Event", "metadata": map[string]any{"name": "e", "namespace": "acme-hr"},
			"message": `cannot mount "payroll-2026" of acme-hr/payroll-2026 on host7.acme.internal.`,
		},
		{"kind": "Lease", "metadata": map[string]any{"name": "disk-example-com", "namespace": "kube-system"}},
	}
	text, err := json.Marshal(HideNames(items))
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for _, secret := range []string{"payroll", "acme", "host7", "pvc-1"} {
		if strings.Contains(got, secret) {
			t.Errorf("%q is left in %s", secret, got)
		}
	}
	for _, kept := range []string{
		"fast", "disk.example.com", "disk-example-com", "kube-system",
		`cannot mount \"persistentvolumeclaim-1\" of namespace-1/persistentvolumeclaim-1 on node-1.`,
		`"claimRef":{"name":"persistentvolumeclaim-1","namespace":"namespace-1"}`,
	} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q is not in %s", kept, got)
		}
	}
}
