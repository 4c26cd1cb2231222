package explain

import (
	"encoding/json"
	"strings"
	"testing"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	command "github.com/purser-csi/purser/internal/roles/explain"
)

// The volumes of a pod on a node of the node agent are published, and explain says why the pod does
// not run: with --pods=finish, where it stays Pending, and with --pods=report, where it is Running.
func TestContainersDoNotRun(t *testing.T) {
	base, _ := readSituations(t)
	const noContainers = "whose containers do not run because the node has no kubelet"
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason}
	}
	published := condition("purser/VolumesPublished", "True", "PodMounted")
	for name, tc := range map[string]struct {
		phase      string
		conditions []any
		next       string
		runs       bool
	}{
		"finish":    {"Pending", []any{published, condition("Ready", "False", "ContainersNotRun")}, "purser node, which runs no containers", false},
		"report":    {"Running", []any{published, condition("Ready", "True", "ContainersNotRun")}, "its volumes are in place", false},
		"a kubelet": {"Running", []any{condition("Ready", "True", "")}, "its volumes are in place", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := situation{Explain: "pod/p", Objects: []map[string]any{
				{
					"kind": "Pod", "metadata": map[string]any{"name": "p"},
					"spec":   map[string]any{"nodeName": "node-a"},
					"status": map[string]any{"phase": tc.phase, "conditions": tc.conditions},
				},
			}}
			out, _ := run(t, "explain", s.Explain, "-n", "shop", "--now", now, "-o", "json", "--from", s.dump(t, base))
			var answer command.Answer
			if err := json.Unmarshal([]byte(out), &answer); err != nil || len(answer.Reports) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			report := answer.Reports[0]
			if report.State != rules.Well || strings.Contains(report.Summary, noContainers) == tc.runs || !strings.Contains(report.Next, tc.next) {
				t.Errorf("state %s, summary %q, next %q", report.State, report.Summary, report.Next)
			}
		})
	}
}
