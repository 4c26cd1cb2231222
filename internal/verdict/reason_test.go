package verdict

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// declared returns the reasons that reasons.go declares, in alphabetical order.
func declared(t *testing.T) []Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "reasons.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []Reason
	ast.Inspect(file, func(n ast.Node) bool {
		if value, is := n.(*ast.BasicLit); is {
			name, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, Reason(name))
		}
		return true
	})
	slices.Sort(all)
	return all
}

// docs/reasons.md has a section for each reason, and none about another name.
func TestReasonsAreDocumented(t *testing.T) {
	reasons, sections := declared(t), All()
	if len(reasons) < 200 {
		t.Errorf("only %d reasons were found", len(reasons))
	}
	for _, r := range reasons {
		if !IsDocumented(r) {
			t.Errorf("docs/reasons.md has no section %q with a text", "### "+r)
		}
	}
	for i, r := range sections {
		if !slices.Contains(reasons, r) {
			t.Errorf("docs/reasons.md has a section about %s, which is no reason; delete it", r)
		}
		if i > 0 && sections[i-1] == r {
			t.Errorf("docs/reasons.md has two sections about %s", r)
		}
	}
}

// The section of a reason ends with its event, exactly when it has one.
func TestReasonsAreDocumentedWithTheirEvents(t *testing.T) {
	for _, r := range declared(t) {
		want := ""
		if info := Describe(r); info.Severity != Silent {
			want = fmt.Sprintf("Event: %s %s", map[Severity]string{Normal: "Normal", Warning: "Warning"}[info.Severity], info.Event)
		}
		paragraphs := strings.Split(section(r), "\n\n")
		got := paragraphs[len(paragraphs)-1]
		if !strings.HasPrefix(got, "Event: ") {
			got = ""
		}
		if got != want {
			t.Errorf("docs/reasons.md: the section about %s says the event as %q, want %q", r, got, want)
		}
	}
}

// A reason causes one event.
func TestEventsAreUnambiguous(t *testing.T) {
	rows := len(ownNormal) + len(ownWarning)
	for _, row := range upstreams {
		rows += len(row.reasons)
	}
	if rows != len(events) {
		t.Errorf("%d rows for %d reasons: one is named twice", rows, len(events))
	}
}

// An event that upstream does not have is not named as one of upstream's.
func TestOwnEvents(t *testing.T) {
	for _, r := range slices.Concat(ownNormal, ownWarning) {
		if slices.ContainsFunc(upstreams, func(row upstreamEvent) bool { return row.event == string(r) }) {
			t.Errorf("upstream has an event %s", r)
		}
		if HasUpstreamEvent(r) || Describe(r).Event != string(r) {
			t.Errorf("%s: %+v", r, Describe(r))
		}
	}
}

func TestAdvice(t *testing.T) {
	for r, want := range map[Reason]string{
		ClaimBound:   "Nothing to do.",
		ClaimLost:    "Restore the PersistentVolume",
		VolumeExists: "If the claim stays Pending, the PV controller has not bound it",
		Reason("x"):  "Nothing to do.",
	} {
		if got := Advice(r); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", r, got, want)
		}
	}
}

func TestFindingText(t *testing.T) {
	for _, tc := range []struct {
		finding Finding
		want    string
	}{
		{Finding{Message: "class x does not exist"}, "class x does not exist"},
		{Finding{Message: "class x does not exist", Fix: "Create it"}, "class x does not exist. Create it"},
		{Finding{Message: "no room.", Fix: "Ask for less"}, "no room. Ask for less"},
		{Finding{Message: "who are you?", Fix: "Give a secret"}, "who are you? Give a secret"},
	} {
		if got := tc.finding.Text(); got != tc.want {
			t.Errorf("Text() = %q, want %q", got, tc.want)
		}
	}
}

// An event that several decisions share has the reason that it says beside its own, if that causes it.
func TestOfEvent(t *testing.T) {
	for _, tc := range []struct {
		event string
		says  Reason
		want  Reason
	}{
		{"ProvisioningFailed", JournalFull, JournalFull},
		{"ProvisioningFailed", "", ""},
		{"ProvisioningFailed", DeleteFailed, ""},
		{"PopulatorFailed", "", PopulatorFailed},
		{"UnrecognizedDataSourceKind", "", DataSourceUnrecognized},
		{"BackOff", "", ""},
		{"", "", ""},
	} {
		if got := OfEvent(tc.event, tc.says); got != tc.want {
			t.Errorf("%s that says %q: %q, want %q", tc.event, tc.says, got, tc.want)
		}
	}
}
