package explain

import (
	"strings"
	"testing"
	"time"

	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

func stuck(name string, reason verdict.Reason, waitsFor string) rules.Report {
	ref := rules.Ref{Kind: rules.Claim, Namespace: "shop", Name: name}
	return rules.Report{Object: ref, State: rules.Stuck, Summary: "the claim is Pending", Findings: []rules.Finding{{
		Reason: reason, Object: ref, Cause: ref, WaitsFor: waitsFor, Actor: rules.Administrator,
	}}}
}

// What --watch prints: an object that waits for something else, one that is new, and one that is
// not stuck any more. A text with another age is no change.
func TestChanges(t *testing.T) {
	well := rules.Report{
		Object: rules.Ref{Kind: rules.Claim, Namespace: "shop", Name: "d"}, State: rules.Well, Summary: "the claim is bound",
	}
	before := Answer{Reports: []rules.Report{
		stuck("a", verdict.ClassMissing, "a class"), stuck("b", verdict.ClassMissing, "a class, for 5s"),
		stuck("c", verdict.ClassMissing, "a class"), stuck("d", verdict.ClassMissing, "a class"),
	}}
	after := Answer{Reports: []rules.Report{
		stuck("a", verdict.CreateFailed, "the driver"), stuck("b", verdict.ClassMissing, "a class, for 9s"), well,
		stuck("e", verdict.ProvisionerSilent, "the provisioner"),
	}}
	p := printer{width: 80}
	p.changes(changes(before, after), time.Date(2026, 1, 31, 12, 0, 5, 0, time.UTC))
	text := strings.Join(strings.Fields(p.String()), " ")
	for _, part := range []string{
		"12:00:05 pvc/a -n shop: CreateFailed (pvc/a -n shop), before ClassMissing", "It waits for the driver.",
		"pvc/d -n shop: well, before ClassMissing", "pvc/e -n shop: ProvisionerSilent", "pvc/c -n shop: not stuck, before",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
	if strings.Contains(text, "pvc/b") || strings.Contains(text, "a class.") {
		t.Errorf("what has not changed is printed: %s", text)
	}
	if same := changes(after, after); len(same) != 0 {
		t.Errorf("changes of nothing: %v", same)
	}
}
