package explained

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
	"github.com/purser-csi/purser/test/compat/record"
	"github.com/purser-csi/purser/test/explain/properties"
)

func TestChanges(t *testing.T) {
	claim := map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"namespace": "s", "name": "c"},
		"spec": map[string]any{"storageClassName": "s.absent"}, "status": map[string]any{"phase": "Pending"},
	}
	class := map[string]any{
		"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": map[string]any{"name": "s.other"}, "provisioner": "d.example.com",
	}
	history := []record.Change{
		{Kind: record.Classes, Object: &unstructured.Unstructured{Object: class}},
		{Kind: record.Claims, Object: &unstructured.Unstructured{Object: claim}},
	}
	if found := Changes(t.Context(), properties.Server{}, history); len(found) > 0 {
		t.Errorf("a claim without its class: %q", found)
	}
}

func TestMissing(t *testing.T) {
	stuck := func(f explain.Finding) explain.Report {
		return explain.Report{State: explain.Stuck, Summary: "s", Findings: []explain.Finding{f}}
	}
	for name, tc := range map[string]struct {
		r    explain.Report
		want string
	}{
		"unknown":        {explain.Report{State: explain.Unknown, Summary: "no such"}, "cannot tell"},
		"no finding":     {explain.Report{State: explain.Stuck, Summary: "s"}, "without a finding"},
		"no sentence":    {stuck(explain.Finding{Reason: verdict.ClassMissing, Actor: explain.User}), "waits for"},
		"no section":     {stuck(explain.Finding{Reason: "Unheard", Actor: explain.User, WaitsFor: "w"}), "no section"},
		"no fix":         {stuck(explain.Finding{Reason: verdict.ClassMissing, Actor: explain.User, WaitsFor: "w"}), "how"},
		"goes on itself": {stuck(explain.Finding{Reason: verdict.ClassMissing, Actor: explain.Itself, WaitsFor: "w"}), ""},
		"well":           {explain.Report{State: explain.Well, Summary: "s"}, ""},
	} {
		if got := strings.Join(missing(tc.r), ""); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
