package explain

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	command "github.com/purser-csi/purser/internal/roles/explain"
)

// stopped returns the objects of a cluster in which no program runs: leases are not renewed, and nodes do
// not report.
func stopped(objects []map[string]any) (all []map[string]any) {
	for _, o := range objects {
		o = maps.Clone(o)
		switch o["kind"] {
		case "Lease":
			spec, _ := o["spec"].(map[string]any)
			spec = maps.Clone(spec)
			spec["renewTime"] = "2026-01-31T11:00:00.000000Z"
			o["spec"] = spec
		case "Node":
			status, _ := o["status"].(map[string]any)
			status = maps.Clone(status)
			if status == nil {
				status = map[string]any{}
			}
			status["conditions"] = []any{map[string]any{
				"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": "2026-01-31T11:00:00Z",
			}}
			o["status"] = status
		}
		all = append(all, o)
	}
	return all
}

// renewed returns the objects a day later, with leases that are renewed.
func renewed(objects []map[string]any) (all []map[string]any) {
	for _, o := range objects {
		if o["kind"] == "Lease" {
			o = maps.Clone(o)
			spec, _ := o["spec"].(map[string]any)
			spec = maps.Clone(spec)
			spec["renewTime"] = "2026-02-01T11:59:58.000000Z"
			o["spec"] = spec
		}
		all = append(all, o)
	}
	return all
}

// "No one: it goes on by itself" is said only of a step that is under way, with the time by which it should
// be over, and that time is still to come. Of a cluster in which no program runs, and of one that has not
// changed for a day, it is never said.
func TestNoOneOnlyWhileAStepIsUnderWay(t *testing.T) {
	base, all := readSituations(t)
	at, err := time.Parse(time.RFC3339, now)
	if err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, s := range all {
		findings := noOne(t, s, base, now)
		for _, f := range findings {
			if f.Until == nil || !f.Until.After(at) {
				t.Errorf("%s: %s of %s is for no one until %v", s.Name, f.Reason, f.Object, f.Until)
			}
		}
		said += len(findings)
		still := s
		still.Objects = stopped(s.Objects)
		for _, f := range noOne(t, still, stopped(base), now) {
			t.Errorf("%s: no program runs, and %s of %s is for no one: %s", s.Name, f.Reason, f.Object, f.WaitsFor)
		}
		later := s
		later.Objects = renewed(s.Objects)
		for _, f := range noOne(t, later, renewed(base), "2026-02-01T12:00:00Z") {
			t.Errorf("%s: nothing has changed for a day, and %s of %s is for no one: %s", s.Name, f.Reason, f.Object, f.WaitsFor)
		}
	}
	t.Logf("%d findings are for no one", said)
	if said == 0 {
		t.Error("no finding is for no one")
	}
}

// noOne returns the findings on which no person has to act: about the object of the situation, and about
// all that is stuck.
func noOne(t *testing.T, s situation, base []map[string]any, at string) (all []rules.Finding) {
	t.Helper()
	from := s.dump(t, base)
	for _, args := range [][]string{{"explain", s.Explain, "-n", "shop"}, {"explain"}} {
		out, _ := run(t, append(args, "--now", at, "-o", "json", "--from", from)...)
		var answer command.Answer
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Fatal(err)
		}
		for _, report := range answer.Reports {
			for _, f := range report.Findings {
				if f.Actor == rules.Itself {
					all = append(all, f)
				}
			}
		}
	}
	return all
}
